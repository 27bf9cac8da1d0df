//! The default level at which each command runs the kernel's own code: one table for help, docs and the commands
//! themselves.

use schedlab_kernel::Level;
use schedlab_machine::Machine;

/// A command's level.
#[derive(Debug)]
pub struct LevelOf {
    pub command: &'static str,
    pub level: Level,
    /// The question of the command, which the level answers.
    pub asks: &'static str,
}

const fn of(command: &'static str, level: Level, asks: &'static str) -> LevelOf {
    LevelOf { command, level, asks }
}

/// The commands that run the kernel's own code.
pub const LEVELS: &[LevelOf] = &[
    of("run", Level::Free, "what is decided, unless its variants or [code] name a level"),
    of("bench", Level::Free, "how a workload is scheduled"),
    of("study", Level::Free, "what is decided, unless its variants or [code] name a level"),
    of("suite", Level::Free, "what a change decides otherwise, over many loads"),
    of("try", Level::Woven, "what a patch changes and what it costs, its own code included"),
    of("hunt", Level::Free, "what is decided, in thousands of runs"),
    of("bisect", Level::Free, "what is decided, in seconds a commit"),
    of("validate", Level::Free, "what is decided"),
];

/// The level of a command; others run no code.
pub fn level_of(command: &str) -> Level {
    LEVELS.iter().find(|one| one.command == command).map(|one| one.level).unwrap_or_default()
}

/// A command's level on machines and this host: CPUs that take turns are not woven, and code is charged only on x86-64.
pub fn level_on(command: &str, machines: &[&Machine]) -> Level {
    let level = level_of(command);
    if !cfg!(target_arch = "x86_64") {
        return Level::Free;
    }
    let takes_turns = machines.iter().any(|machine| machine.turns.is_some());
    if level.weaves() && takes_turns { Level::Counted } else { level }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn cpus_that_take_turns_are_counted_and_not_woven() {
        let machine = |name: &str| Machine::load(name).unwrap();
        let (free, turns) = (machine("smp-8"), machine("icount-8-smt"));
        if cfg!(target_arch = "x86_64") {
            assert_eq!(level_on("try", &[&free]), Level::Woven);
            assert_eq!(
                level_on("try", &[&free, &turns]),
                Level::Counted,
                "one level for all: they are compared"
            );
        }
        assert_eq!(level_on("hunt", &[&turns]), Level::Free);
    }

    #[test]
    fn commands_whose_variants_name_levels_have_the_default_level_of_a_variant() {
        for command in ["run", "bench", "study", "suite", "hunt"] {
            assert_eq!(level_of(command), Level::default(), "{command} takes its variants' levels");
        }
    }

    #[test]
    fn the_docs_have_the_table() {
        let rows: Vec<String> = LEVELS
            .iter()
            .map(|one| format!("| `{}` | `{}` | {} |", one.command, one.level.word(), one.asks))
            .collect();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/code.md");
        let text = std::fs::read_to_string(file).unwrap();
        let table = rows.join("\n");
        assert!(
            text.contains(&table),
            "docs/code.md lacks these rows of crates/lab/src/ask/levels.rs:\n{table}"
        );
    }
}
