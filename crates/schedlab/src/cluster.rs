//! Options of a cluster: `--engine slurm`, and an option for each key of `[slurm]`, from the same table.

use clap::error::Error as Refused;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use schedlab_lab::Cluster;
use schedlab_lab::exec::slurm::{self, is_flag, option_of, value_of};
use schedlab_lab::experiment::keys;
use schedlab_lab::parcel::How;

const HEADING: &str = "Cluster (--engine slurm)";
const ENGINES: [&str; 2] = ["here", "slurm"];

/// Where missing runs are made, and what is asked of a cluster.
#[derive(Default)]
pub struct ClusterOptions {
    engine: Option<String>,
    /// Keys and values.
    given: Vec<(&'static str, String)>,
}

impl Args for ClusterOptions {
    fn augment_args(command: Command) -> Command {
        let engine = Arg::new("engine").long("engine").value_name("ENGINE").help_heading(HEADING).help(
            "Who makes missing runs: here (this process) or slurm (job arrays of a cluster) [default: here]",
        );
        keys::SLURM.keys.iter().fold(command.arg(engine), |command, key| {
            let arg = Arg::new(key.name).long(option_of(key.name)).help_heading(HEADING);
            let about = key.about.split_once("; default ");
            let help = match about {
                Some((first, usual)) if !is_flag(key.name) => {
                    format!("{} [default: {usual}]", capital(first))
                }
                Some((first, _)) => capital(first),
                None => capital(key.about),
            };
            let arg = arg.help(help);
            command.arg(match is_flag(key.name) {
                true => arg.action(ArgAction::SetTrue),
                false => arg.value_name(value_of(key.name)),
            })
        })
    }
    fn augment_args_for_update(command: Command) -> Command {
        ClusterOptions::augment_args(command)
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

impl FromArgMatches for ClusterOptions {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<ClusterOptions, Refused> {
        let value = |key: &'static str| match is_flag(key) {
            true => matches.get_flag(key).then(|| "true".to_owned()),
            false => matches.get_one::<String>(key).cloned(),
        };
        let given = keys::SLURM.names().into_iter().filter_map(|key| Some((key, value(key)?))).collect();
        Ok(ClusterOptions { engine: matches.get_one::<String>("engine").cloned(), given })
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), Refused> {
        *self = ClusterOptions::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs are made by this process.
pub static HERE: ClusterOptions = ClusterOptions { engine: None, given: Vec::new() };

impl ClusterOptions {
    /// Whether a cluster makes the runs.
    pub fn is_slurm(&self) -> bool {
        self.engine.as_deref() == Some("slurm")
    }
    /// Checks the options.
    ///
    /// # Errors
    /// An engine that is none, and options of a cluster without one.
    pub fn check(&self) -> Result<()> {
        if let Some(other) = self.engine.as_deref().filter(|e| !ENGINES.contains(e)) {
            return Err(Error::unknown("engine", other, ENGINES));
        }
        match self.given.first() {
            Some((key, _)) if !self.is_slurm() => {
                let text = format!("--{} is for a cluster, and the runs are made here", option_of(key));
                Err(Error::input(text).help("add --engine slurm"))
            }
            _ => self.options(&slurm::Options::default()).map(|_| ()),
        }
    }
    /// What is asked of the cluster: what the experiment says, and the command line after it.
    fn options(&self, of_experiment: &slurm::Options) -> Result<slurm::Options> {
        let mut options = of_experiment.clone();
        for (key, value) in &self.given {
            options.set(key, value).map_err(|e| e.context(format!("--{}", option_of(key))))?;
        }
        Ok(options)
    }
    /// The cluster that makes the runs of an experiment; none if they are made here.
    ///
    /// # Errors
    /// As [`ClusterOptions::check`].
    pub fn cluster(
        &self,
        of_experiment: &slurm::Options,
        experiment: &str,
        how: How,
    ) -> Result<Option<Cluster>> {
        self.check()?;
        if !self.is_slurm() {
            return Ok(None);
        }
        let options = self.options(of_experiment)?;
        Ok(Some(Cluster { options, experiment: experiment.to_owned(), how }))
    }
}

/// The ids of all these options, for commands that have none of them.
pub fn ids() -> impl Iterator<Item = &'static str> {
    keys::SLURM.names().into_iter().chain(["engine"])
}
