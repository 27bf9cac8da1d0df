//! The layers of the simulator: rules and state below, then `System`, then the drivers that take both through time.
//!
//! A *driver* is a file that has `impl System` or works on a `System`. Every other file is a rule or state and imports
//! no driver, so that a rule can be read, and tested, without the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module's path below `crate`, and its text without its tests.
type Modules = BTreeMap<Vec<String>, String>;

fn read(folder: &Path, at: &[String], modules: &mut Modules) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut module = at.to_vec();
        if path.is_dir() {
            module.push(stem);
            read(&path, &module, modules);
        } else if !stem.ends_with("tests") && stem != "testing" {
            if stem != "mod" && stem != "lib" {
                module.push(stem);
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap();
            modules.insert(module, code.to_owned());
        }
    }
}

/// The paths of a use tree, one for each name.
fn expand(tree: &str) -> Vec<String> {
    let Some((before, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let (mut parts, mut depth, mut part) = (Vec::new(), 0, String::new());
    for c in rest.chars() {
        match c {
            '}' if depth == 0 => break,
            ',' if depth == 0 => parts.push(std::mem::take(&mut part)),
            _ => {
                depth += i32::from(c == '{') - i32::from(c == '}');
                part.push(c);
            }
        }
    }
    parts.push(part);
    parts
        .iter()
        .filter(|p| !p.trim().is_empty())
        .flat_map(|p| expand(&format!("{before}{}", p.trim())))
        .collect()
}

/// The modules that `module` imports something from.
fn imports(modules: &Modules, module: &[String]) -> BTreeSet<Vec<String>> {
    let text =
        modules[module].lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let trees = text.split("use ").skip(1).filter_map(|t| t.split_once(';')).map(|(tree, _)| tree);
    trees.flat_map(expand).filter_map(|path| target(modules, module, &path)).collect()
}

fn target(modules: &Modules, from: &[String], path: &str) -> Option<Vec<String>> {
    let mut names = path.split(" as ").next()?.split("::").peekable();
    let mut at = match *names.peek()? {
        "crate" => Vec::new(),
        "super" | "self" => from.to_vec(),
        own if modules.contains_key(&[from, &[own.to_owned()]].concat()) => from.to_vec(),
        _ => return None,
    };
    while let Some(word) = names.next_if(|n| ["crate", "super", "self"].contains(n)) {
        if word == "super" {
            at.pop();
        }
    }
    for name in names {
        let deeper = [at.as_slice(), &[name.to_owned()]].concat();
        if !modules.contains_key(&deeper) {
            break;
        }
        at = deeper;
    }
    Some(at)
}

fn drives(code: &str) -> bool {
    let marks = [
        "\nimpl System<",
        "System<'_>",
        "&mut System<",
        "System::new(",
        "SchedClass for",
        "Peer for",
        "Guest for",
        "Rules for",
    ];
    marks.iter().any(|mark| code.contains(mark))
}

#[test]
fn rules_and_state_import_no_driver() {
    let mut modules = Modules::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &[], &mut modules);
    let system = vec!["system".to_owned()];
    let drivers: BTreeSet<_> =
        modules.iter().filter(|(m, code)| **m != system && drives(code)).map(|(m, _)| m.clone()).collect();
    assert!(
        drivers.len() > 40 && modules.len() > drivers.len() + 60,
        "{} of {}",
        drivers.len(),
        modules.len()
    );
    let mut wrong = Vec::new();
    for module in modules.keys().filter(|m| !drivers.contains(*m) && !m.is_empty()) {
        for driver in imports(&modules, module).intersection(&drivers).filter(|d| !names_its_room(module, d))
        {
            wrong.push(format!("{} imports {}", module.join("::"), driver.join("::")));
        }
    }
    assert!(wrong.is_empty(), "a rule or state imports a driver:\n{}", wrong.join("\n"));
}

/// The head of a module names the module's drivers to the rest of the crate, and uses none.
fn names_its_room(module: &[String], driver: &[String]) -> bool {
    driver.len() > module.len() && driver.starts_with(module)
}

#[test]
fn a_use_tree_expands_to_its_paths() {
    assert_eq!(expand("a::{b, c::{d, e}, f}"), ["a::b", "a::c::d", "a::c::e", "a::f"]);
    let modules: Modules = [vec![], vec!["a"], vec!["a", "b"], vec!["c"]]
        .map(|m| (m.into_iter().map(str::to_owned).collect(), String::new()))
        .into();
    let found = |from: &[&str], path| {
        let from: Vec<_> = from.iter().map(|s| (*s).to_owned()).collect();
        target(&modules, &from, path).map(|t| t.join("::"))
    };
    assert_eq!(found(&["c"], "crate::a::b::Noun").as_deref(), Some("a::b"));
    assert_eq!(found(&["a", "b"], "super::Noun").as_deref(), Some("a"));
    assert_eq!(found(&["a"], "b::Noun").as_deref(), Some("a::b"));
    assert_eq!(found(&["a"], "schedlab_base::CpuId"), None);
}
