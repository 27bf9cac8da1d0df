//! Counters of load balancing from `/proc/schedstat`, summed over CPUs, for each variant.

use super::LoadGroup;
use super::escape::escape;
use crate::number::count;
use schedlab_record::Record;
use schedlab_record::schedstat::{BALANCE_ROWS, DomainTotal, IdleType, Totals};

/// The table; empty if no run has the counters.
pub fn table(group: &LoadGroup<'_>) -> String {
    let totals: Vec<Vec<Totals>> = group.runs.iter().map(|runs| totals(runs)).collect();
    let mut body = String::new();
    for name in names(&totals) {
        for (kind, idle) in IdleType::ALL.iter().enumerate() {
            for row in BALANCE_ROWS {
                let of = |t: &Totals| domain(t, &name).map(|d| (row.get)(&d.lb[kind]));
                let values: Vec<Option<f64>> = totals.iter().map(|runs| mean(runs, of)).collect();
                if values.iter().flatten().all(|v| *v == 0.0) {
                    continue;
                }
                body += &format!("<tr><th>{} {} {}</th>", escape(&name), idle.name(), row.name);
                for value in values {
                    let text = value.map_or_else(|| "-".to_owned(), |v| count(v.round()));
                    body += &format!("<td class=\"num\">{text}</td>");
                }
                body += "</tr>\n";
            }
        }
    }
    if body.is_empty() {
        return String::new();
    }
    let heads: String =
        group.cells.iter().map(|c| format!("<th class=\"num\">{}</th>", escape(&c.variant))).collect();
    format!(
        "<details class=\"long\"><summary><h4 style=\"display:inline\">Balance counters (schedstat)</h4></summary>\n\
         <p class=\"note\">Domain, type of idleness, counter; sums over CPUs, means over runs; without counters that are 0; - where \
         there is no such domain.</p>\n\
         <div class=\"wide\"><table><thead><tr><th>counter</th>{heads}</tr></thead><tbody>\n{body}</tbody></table></div></details>\n"
    )
}

fn totals(runs: &[Record]) -> Vec<Totals> {
    runs.iter().filter_map(|r| Some(r.found.schedstat.as_ref()?.totals())).collect()
}

/// A domain's name; its level if the kernel does not name domains.
fn name_of(level: usize, domain: &DomainTotal) -> String {
    if domain.name.is_empty() { format!("domain{level}") } else { domain.name.clone() }
}

/// The domains of all runs, smaller ones first. Kernels may build different domains on one machine, so levels are not
/// comparable.
fn names(totals: &[Vec<Totals>]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for run in totals.iter().flatten() {
        // A new name goes after the one below it.
        let mut at = 0;
        for (level, domain) in run.domains.iter().enumerate() {
            let name = name_of(level, domain);
            let place = all.iter().position(|known| *known == name).unwrap_or_else(|| {
                all.insert(at, name);
                at
            });
            at = place + 1;
        }
    }
    all
}

fn domain<'t>(totals: &'t Totals, name: &str) -> Option<&'t DomainTotal> {
    let found = totals.domains.iter().enumerate().find(|(level, d)| name_of(*level, d) == name);
    found.map(|(_, domain)| domain)
}

/// The mean over the runs that have the value; `None` if no run has it.
fn mean(totals: &[Totals], of: impl Fn(&Totals) -> Option<u64>) -> Option<f64> {
    let values: Vec<f64> = totals.iter().filter_map(|t| Some(of(t)? as f64)).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(domains: &[&str]) -> Totals {
        let domain = |name: &&str| DomainTotal { name: (*name).to_owned(), ..DomainTotal::default() };
        Totals { domains: domains.iter().map(domain).collect(), ..Totals::default() }
    }

    #[test]
    fn domains_are_matched_by_name() {
        let totals =
            [vec![run(&["SMT", "DIE"])], vec![run(&["SMT", "MC", "DIE", "NUMA"]), run(&["", "DIE"])]];
        assert_eq!(names(&totals), ["domain0", "SMT", "MC", "DIE", "NUMA"]);
        let mut two = run(&["SMT", "DIE"]);
        two.domains[1].cpus = 8;
        assert_eq!(domain(&two, "DIE").map(|d| d.cpus), Some(8));
        assert!(domain(&two, "MC").is_none(), "absent, not 0");
    }

    #[test]
    fn the_mean_is_over_the_runs_that_have_the_domain() {
        let cpus = |t: &Totals| domain(t, "MC").map(|d| d.cpus as u64);
        let mut with = run(&["MC"]);
        with.domains[0].cpus = 4;
        assert_eq!(mean(&[with, run(&["DIE"])], cpus), Some(4.0));
        assert_eq!(mean(&[run(&["DIE"])], cpus), None);
    }
}
