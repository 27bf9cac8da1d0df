//! What is around an experiment's workloads: benchmarks beside them, and task groups.

use super::keys;
use super::loads::Workload;
use schedlab_base::Result;
use schedlab_machine::reader::Table;
use schedlab_workload::{Beside, GroupSpec, Spec, spec, together};

/// The `[[beside]]` and `[[group]]` of an experiment.
pub struct Around<'t> {
    beside: Vec<(Table<'t>, Workload)>,
    groups: Vec<GroupSpec>,
}

impl<'t> Around<'t> {
    /// Reads both.
    ///
    /// # Errors
    /// For unknown keys, benchmarks and paths, and shares out of range.
    pub fn read(top: &Table<'t>) -> Result<Around<'t>> {
        let mut beside = Vec::new();
        for table in top.open_tables("beside")? {
            let name = table.required("name", table.string("name")?)?;
            let bench = spec::find(name).map_err(|e| table.place("name", e))?;
            let params: Vec<&str> = bench.params.iter().map(|p| p.name).collect();
            keys::BESIDE.check(&table, &format!("{} parameter", bench.name), &params)?;
            table.label("called")?;
            let workload = Workload::of_bench(&table, bench)?;
            beside.push((table, workload));
        }
        let mut groups = Vec::new();
        for table in top.tables("group", &keys::GROUP.names())? {
            let path = table.required("path", table.string("path")?)?;
            schedlab_workload::group::find_or_declare(&mut vec![schedlab_workload::GroupDecl::root()], path)
                .map_err(|e| table.place("path", e))?;
            let (own, weight) = (table.number("shares")?, table.number("weight")?);
            let key = if own.is_some() { "shares" } else { "weight" };
            let shares = together::shares(own, weight).map_err(|e| table.place(key, e))?;
            let tasks =
                super::strings(&table, "tasks")?.into_iter().map(|(name, _)| name.to_owned()).collect();
            groups.push(GroupSpec { path: path.to_owned(), shares, tasks });
        }
        Ok(Around { beside, groups })
    }

    /// A workload with what is around it, on a machine with `cpus` CPUs.
    ///
    /// # Errors
    /// When they don't go together.
    pub fn around(&self, spec: Spec, cpus: u64) -> Result<Spec> {
        let mut beside = Vec::new();
        for (table, workload) in &self.beside {
            let mut made = workload.loads(None, cpus)?;
            let (Some((_, Spec::Bench { name, params })), true) = (made.pop(), made.is_empty()) else {
                return Err(table.error_at("name", "what runs beside a workload is not swept"));
            };
            beside.push(Beside { name, params, called: table.string("called")?.map(str::to_owned) });
        }
        spec.together(beside, self.groups.clone())
    }
}
