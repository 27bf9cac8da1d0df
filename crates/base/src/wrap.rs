//! Text wrapped for mails and terminals.

/// Columns of a line.
pub const WIDTH: usize = 78;

/// Words in lines of at most [`WIDTH`] columns. The first line starts with `first`, the others with `rest`. A word
/// longer than a line gets its own, longer line: see [`pieces`].
pub fn wrapped<W: AsRef<str>>(first: &str, rest: &str, words: impl Iterator<Item = W>) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut empty) = (first.to_owned(), true);
    for word in words {
        let word = word.as_ref();
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

/// A word in pieces of at most `most` characters. It is broken after commas (a list of CPUs), and a longer part is cut
/// (a task's name).
pub fn pieces(word: &str, most: usize) -> Vec<String> {
    if word.chars().count() <= most {
        return vec![word.to_owned()];
    }
    let mut all = vec![String::new()];
    for part in word.split_inclusive(',') {
        for chunk in part.chars().collect::<Vec<_>>().chunks(most) {
            let last = all.len() - 1;
            if all[last].chars().count() + chunk.len() > most {
                all.push(chunk.iter().collect());
            } else {
                all[last].extend(chunk);
            }
        }
    }
    all
}

/// The last eight non-empty lines of a program's output, for a message.
pub fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(8)..].join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_fill_lines_and_long_ones_are_broken_behind_commas() {
        let text = "word ".repeat(20);
        let lines = wrapped("a: ", "   ", text.split_whitespace());
        assert_eq!(lines[0], format!("a: {}", ["word"; 15].join(" ")));
        assert_eq!(lines[1], format!("   {}", ["word"; 5].join(" ")));
        assert_eq!(wrapped("", "", std::iter::empty::<&str>()), [""]);
        assert_eq!(pieces("0,1,22,3", 4), ["0,1,", "22,3"]);
        assert_eq!(pieces("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(pieces("short", 9), ["short"]);
    }
}
