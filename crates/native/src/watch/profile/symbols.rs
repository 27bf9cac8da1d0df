//! Names of the kernel's functions, from /proc/kallsyms.
//!
//! The file has a line per symbol: address, kind, name, and the module in brackets. Without the right to see addresses
//! (kernel.kptr_restrict) all are 0. Suffixes that a compiler adds (`.constprop.0`, `.isra.0`, `.cold`) are removed, so
//! that a function is found by its name in the source.

use schedlab_base::{Error, Result};

pub const KALLSYMS: &str = "/proc/kallsyms";
/// Kinds of text symbols, in the second column.
const TEXT: &[&str] = &["T", "t", "W", "w"];
/// Assumed maximal length of the last text symbol.
const LONGEST: u64 = 1 << 20;

/// Names that changed: at the time of the RFC, and in 6.10 and later (`sched/fair: Rename ... to sched_balance_...`).
const RENAMED: &[(&str, &str)] = &[
    ("newidle_balance", "sched_balance_newidle"),
    ("load_balance", "sched_balance_rq"),
    ("rebalance_domains", "sched_balance_domains"),
    ("find_busiest_group", "sched_balance_find_src_group"),
    ("find_busiest_queue", "sched_balance_find_src_rq"),
    ("find_idlest_group", "sched_balance_find_dst_group"),
    ("find_idlest_cpu", "sched_balance_find_dst_cpu"),
    ("run_rebalance_domains", "sched_balance_softirq"),
    ("scheduler_tick", "sched_tick"),
];

/// The other, older or newer, name of a function.
pub fn also_called(name: &str) -> Option<&'static str> {
    RENAMED.iter().find_map(|(old, new)| match name {
        n if n == *old => Some(*new),
        n if n == *new => Some(*old),
        _ => None,
    })
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Start and name, ascending, with unique starts.
    sorted: Vec<(u64, String)>,
}

impl Symbols {
    /// Reads the running kernel's symbols.
    ///
    /// # Errors
    /// When the file can't be read, or hides all addresses.
    pub fn running() -> Result<Symbols> {
        let text = std::fs::read_to_string(KALLSYMS).map_err(|e| Error::io(KALLSYMS.as_ref(), "read", &e))?;
        let symbols = Symbols::parse(&text);
        if symbols.sorted.is_empty() {
            return Err(Error::machine(format!("{KALLSYMS} hides the kernel's addresses"))
                .help("sysctl kernel.kptr_restrict=0, with CAP_SYSLOG or root"));
        }
        Ok(symbols)
    }

    /// Reads the file's text. Other lines, data symbols and hidden addresses are skipped.
    pub fn parse(text: &str) -> Symbols {
        let mut sorted: Vec<(u64, String)> = text.lines().filter_map(line).collect();
        // Of several names at one address the first is kept, because the file has the usual name first.
        sorted.sort_by_key(|(at, _)| *at);
        sorted.dedup_by_key(|(at, _)| *at);
        Symbols { sorted }
    }

    /// The function that contains the address.
    pub fn find(&self, address: u64) -> Option<&str> {
        let next = self.sorted.partition_point(|(at, _)| *at <= address);
        let (start, name) = self.sorted.get(next.checked_sub(1)?)?;
        let last = next == self.sorted.len();
        (!last || address - start < LONGEST).then_some(name.as_str())
    }
    pub fn has(&self, name: &str) -> bool {
        self.sorted.iter().any(|(_, known)| known == name)
    }
}

fn line(line: &str) -> Option<(u64, String)> {
    let mut words = line.split_whitespace();
    let (at, kind, name) = (words.next()?, words.next()?, words.next()?);
    let at = u64::from_str_radix(at, 16).ok().filter(|at| *at != 0)?;
    (TEXT.contains(&kind) && !name.is_empty()).then(|| (at, plain(name).to_owned()))
}

/// The name in the source, without the compiler's suffixes.
fn plain(name: &str) -> &str {
    let end = name.char_indices().skip(1).find(|(_, c)| *c == '.').map_or(name.len(), |(at, _)| at);
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000200 t newidle_balance.isra.0
ffffffff81000100 T schedule
ffffffff81000180 D some_data
ffffffffc0000000 t helper\t[module]
not a line
";

    #[test]
    fn an_address_belongs_to_the_symbol_before_it() {
        let s = Symbols::parse(TEXT);
        assert_eq!(s.find(0xffff_ffff_8100_0000), Some("_stext"));
        assert_eq!(s.find(0xffff_ffff_8100_01ff), Some("schedule"));
        assert_eq!(s.find(0xffff_ffff_8100_0200), Some("newidle_balance"));
        assert_eq!(s.find(0xffff_ffff_80ff_ffff), None);
        assert_eq!(s.find(0xffff_ffff_c000_0010), Some("helper"));
        assert_eq!(s.find(0xffff_ffff_c000_0000 + LONGEST), None);
        assert!(s.has("schedule") && !s.has("some_data"));
    }

    #[test]
    fn hidden_addresses_are_ignored() {
        let hidden = "0000000000000000 T _text\n0000000000000000 t schedule\n";
        assert_eq!(Symbols::parse(hidden), Symbols::default());
    }

    #[test]
    fn names_of_two_times_are_one_function() {
        assert_eq!(also_called("newidle_balance"), Some("sched_balance_newidle"));
        assert_eq!(also_called("sched_balance_newidle"), Some("newidle_balance"));
        assert_eq!(also_called("update_sd_lb_stats"), None);
        assert_eq!((plain("x.part.0.cold"), plain(".odd")), ("x", ".odd"));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[0-9a-f TtWD.\\n_a-z]{0,200}", at in any::<u64>()) {
            let _ = Symbols::parse(&text).find(at);
        }
    }
}
