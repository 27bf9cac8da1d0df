//! Colours of verdicts: better green, worse red, changed yellow and bold. They are added to a finished table just
//! before a terminal shows it. Forms know nothing of colours, so text that is piped, stored or tested stays the same to
//! the byte.
//!
//! A mark is recognised by its surroundings: in `table` it follows a change ("-97% *", "x23.8 !", "new #"), in `detail`
//! it begins the last word of a line ("*better"). Marks in legends do neither.

use std::io::IsTerminal;
use std::sync::OnceLock;

static ON: OnceLock<bool> = OnceLock::new();

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[1;33m";
const PLAIN: &str = "\x1b[0m";

/// Mark, word in the form `detail`, colour.
const MARKS: &[(char, &str, &str)] =
    &[('*', "*better", GREEN), ('!', "!worse", RED), ('#', "#changed", YELLOW)];

/// Decides once for the process, by the value of `--color`: `always`, `never`, or `auto`.
pub fn decide(choice: &str) {
    let on = match choice {
        "always" => true,
        "never" => false,
        _ => wanted(std::io::stdout().is_terminal(), &|name| std::env::var_os(name)),
    };
    // A process has one command line, so this is called once.
    let _ = ON.set(on);
}

/// Whether standard output is a terminal with colours, and the user has not switched colours off.
fn wanted(terminal: bool, variable: &dyn Fn(&str) -> Option<std::ffi::OsString>) -> bool {
    let refused = variable("NO_COLOR").is_some_and(|v| !v.is_empty());
    terminal && !refused && variable("TERM").is_none_or(|t| t != "dumb")
}

/// The text with its verdicts coloured, if [`decide`] chose colours.
pub fn verdicts(text: String, form: &str) -> String {
    let on = ON.get().copied().unwrap_or(false);
    if on && ["table", "detail"].contains(&form) { painted(&text) } else { text }
}

fn painted(text: &str) -> String {
    text.split_inclusive('\n').map(line).collect()
}

fn line(whole: &str) -> String {
    let line = whole.trim_end_matches('\n');
    let end = &whole[line.len()..];
    if let Some((_, word, colour)) = MARKS.iter().find(|(_, word, _)| line.ends_with(&format!(" {word}"))) {
        let before = &line[..line.len() - word.len()];
        return format!("{before}{colour}{word}{PLAIN}{end}");
    }
    let mut out = String::new();
    let mut rest = line;
    while let Some((from, to, colour)) = next(rest) {
        out.push_str(&rest[..from]);
        out.push_str(colour);
        out.push_str(&rest[from..to]);
        out.push_str(PLAIN);
        rest = &rest[to..];
    }
    out + rest + end
}

/// The first change with its mark: where it begins and ends, and its colour.
fn next(text: &str) -> Option<(usize, usize, &'static str)> {
    for (at, ch) in text.char_indices() {
        let Some((_, _, colour)) = MARKS.iter().find(|(mark, ..)| *mark == ch) else { continue };
        let after = &text[at + 1..];
        if !after.is_empty() && !after.starts_with(' ') {
            continue;
        }
        let Some(before) = text[..at].strip_suffix(' ') else { continue };
        let from = before.rfind([' ', '\'']).map_or(0, |i| i + 1);
        if is_change(&before[from..]) {
            return Some((from, at + 1, colour));
        }
    }
    None
}

/// "+4.2%", "-97%", "0.0%", "x23.8", "new".
fn is_change(word: &str) -> bool {
    let number = |t: &str| t.parse::<f64>().is_ok();
    word == "new" || word.strip_suffix('%').is_some_and(number) || word.strip_prefix('x').is_some_and(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_coloured_with_their_marks() {
        let text = "latency.p99  4.68ms (1.2%)   50.0us  -99% *   1.00ms'x23.8 !\n\
                    work            12 (0.1%)       12 0.0% =      13 +8.3% #\n\
                    over runs. * better, ! worse, # changed: at least 2%; = same within 2%; ~ cannot tell.\n";
        let got = painted(text);
        let want = "latency.p99  4.68ms (1.2%)   50.0us  \x1b[32m-99% *\x1b[0m   1.00ms'\x1b[31mx23.8 !\x1b[0m\n\
                    work            12 (0.1%)       12 0.0% =      13 \x1b[1;33m+8.3% #\x1b[0m\n\
                    over runs. * better, ! worse, # changed: at least 2%; = same within 2%; ~ cannot tell.\n";
        assert_eq!(got, want);
    }

    #[test]
    fn the_words_of_details_are_coloured_at_the_end_of_their_lines() {
        let text =
            "  first-idle   50.0us   1.0%   -99.0% [-99.1, -98.9]   *better\n*better, !worse, #changed: p";
        let want = "  first-idle   50.0us   1.0%   -99.0% [-99.1, -98.9]   \x1b[32m*better\x1b[0m\n*better, !worse, #changed: p";
        assert_eq!(painted(text), want);
    }

    #[test]
    fn only_a_terminal_that_wants_them_gets_colours() {
        let with = |terminal: bool, name: &'static str, value: &'static str| {
            wanted(terminal, &|asked| (asked == name).then(|| value.into()))
        };
        assert!(with(true, "TERM", "xterm") && with(true, "NO_COLOR", ""));
        assert!(!with(true, "NO_COLOR", "1") && !with(true, "TERM", "dumb") && !with(false, "TERM", "xterm"));
    }
}
