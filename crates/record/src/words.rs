//! Explanations in lines of at most 78 columns, to be pasted into mail.

/// The width of a line.
pub const WIDTH: usize = 78;
/// The column where the words of one story begin.
pub const STORY: usize = 14;

/// Adds words in lines of at most [`WIDTH`] columns: the first after `front`, the others indented. A word longer than a
/// line (a task's name) is cut.
pub fn wrap(out: &mut Vec<String>, front: &str, indent: usize, words: &str) {
    let (mut line, mut empty) = (front.to_owned(), true);
    for word in words.split_whitespace() {
        let word: String = word.chars().take(WIDTH - indent).collect();
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push(std::mem::replace(&mut line, " ".repeat(indent)));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(&word);
        empty = false;
    }
    out.push(line);
}

/// A heading, and the story of each item, numbered from 1; nothing without any. `nouns`: for one, for several.
pub fn longest<T>(
    out: &mut Vec<String>,
    nouns: [&str; 2],
    items: &[T],
    story: impl Fn(usize, &T, &mut Vec<String>),
) {
    let [one, several] = nouns;
    match items.len() {
        0 => return,
        1 => out.extend([String::new(), format!("The longest {one}:")]),
        n => out.extend([String::new(), format!("The {n} longest {several}:")]),
    }
    for (n, item) in items.iter().enumerate() {
        out.push(String::new());
        story(n + 1, item, out);
    }
}

/// The text, with notes at its end.
pub fn with_notes(mut out: Vec<String>, notes: &[String]) -> String {
    if !notes.is_empty() {
        out.push(String::new());
    }
    notes.iter().for_each(|n| wrap(&mut out, "", 6, &format!("note: {n}")));
    out.push(String::new());
    out.join("\n")
}
