//! A case for the tests of this module.

use super::case::{self, Case};
use schedlab_compare::agreement::rows::CLASSES;
use std::path::Path;

/// A case in a guest with the usual tolerances, and more text.
pub fn case(more: &str) -> Case {
    let mut text = String::from(
        "name = \"mine\"\nabout = \"spinning\"\nbackend = \"vm\"\nmachine = \"icount-4\"\nruns = 2\n[kernel]\n\
         simulated = \"v6.1\"\nimage = \"6.1\"\n[workload]\nname = \"slice\"\nruntime = \"1s\"\n[tolerance]\n",
    );
    CLASSES.iter().for_each(|c| text.push_str(&format!("{} = {}\n", c.name, c.vm_pct)));
    case::parse(Path::new("mine.toml"), &(text + more)).unwrap()
}
