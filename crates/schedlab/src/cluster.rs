//! Options of a cluster: `--engine slurm`, and `--slurm KEY=VALUE` for each key of an experiment's `[slurm]`.

use clap::Args;
use schedlab_base::{Error, Result};
use schedlab_cluster::Cluster;
use schedlab_cluster::parcel::Protocol;
use schedlab_lab::ask::experiment::SlurmOptions;

const ENGINES: [&str; 2] = ["here", "slurm"];
/// The heading of these options in help. Each option names it, because a heading of the struct would also hold for the
/// options after it.
const HEADING: &str = "Cluster";

/// Where missing runs are made, and what is asked of a cluster.
#[derive(Args, Default)]
pub struct ClusterOptions {
    /// Who makes missing runs: here (this process) or slurm (job arrays of a cluster) [default: here]
    #[arg(long, value_name = "ENGINE", help_heading = HEADING, hide_short_help = true)]
    engine: Option<String>,
    /// Ask this of the cluster: a key of [slurm], such as partition=batch (docs/cluster.md); may be given more than
    /// once
    #[arg(long, value_name = "KEY=VALUE", help_heading = HEADING, hide_short_help = true)]
    slurm: Vec<String>,
}

impl ClusterOptions {
    /// Whether a cluster makes the runs.
    pub fn is_slurm(&self) -> bool {
        self.engine.as_deref() == Some("slurm")
    }
    /// Checks the options.
    ///
    /// # Errors
    /// An unknown engine or key, a wrong value, and requests to a cluster without one.
    pub fn check(&self) -> Result<()> {
        if let Some(other) = self.engine.as_deref().filter(|e| !ENGINES.contains(e)) {
            return Err(Error::unknown("engine", other, ENGINES));
        }
        if !self.slurm.is_empty() && !self.is_slurm() {
            return Err(Error::input("--slurm is for a cluster, and the runs are made here")
                .help("add --engine slurm"));
        }
        self.options(&SlurmOptions::default()).map(|_| ())
    }
    /// The options of the cluster: the experiment's, then those of the command line, which win.
    fn options(&self, of_experiment: &SlurmOptions) -> Result<SlurmOptions> {
        let mut options = of_experiment.clone();
        for word in &self.slurm {
            let at = |e: Error| e.context(format!("--slurm {word}"));
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| at(Error::input("it has no '='").help("write --slurm partition=batch")))?;
            options.set(key, value).map_err(at)?;
        }
        Ok(options)
    }
    /// The cluster that makes the runs of an experiment; `None` if they are made here.
    pub fn cluster(
        &self,
        of_experiment: &SlurmOptions,
        experiment: &str,
        how: Protocol,
    ) -> Result<Option<Cluster>> {
        self.check()?;
        if !self.is_slurm() {
            return Ok(None);
        }
        let options = self.options(of_experiment)?;
        Ok(Some(Cluster { options, experiment: experiment.to_owned(), how }))
    }
}

/// The ids of these options, for commands that have none of them.
pub fn ids() -> impl Iterator<Item = &'static str> {
    ["engine", "slurm"].into_iter()
}
