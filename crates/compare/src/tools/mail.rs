//! Decodes tables in mails: they may be quoted by answers, and in a transfer encoding (quoted-printable, RFC 2045),
//! which writes bytes as `=C2` and breaks long lines with `=` at their end.

use std::borrow::Cow;
use std::iter::Peekable;

/// A line of a mail's text, with the number of its first line in the file.
pub type Numbered<'a> = (usize, Cow<'a, str>);

/// The lines of a text. Quoted-printable parts are decoded: those that look like it, and those whose head says so,
/// unless their text shows that it was decoded before, as in saved mails.
pub fn lines(text: &str) -> Vec<Numbered<'_>> {
    let mut all = Vec::new();
    let mut encoded = looks_encoded(text);
    // The encoding that the current head names; it applies from the next empty line on.
    let mut announced = None;
    let mut rest = text.lines().enumerate().peekable();
    while let Some((at, line)) = rest.next() {
        if let Some(word) = encoding(line) {
            announced = Some(word.eq_ignore_ascii_case("quoted-printable"));
        } else if line.is_empty() {
            encoded = announced.take().map_or(encoded, |said| said && may_be_encoded(rest.clone()));
        }
        let plain = if encoded && announced.is_none() && line.contains('=') {
            Cow::Owned(decoded(line, &mut rest))
        } else {
            Cow::Borrowed(line)
        };
        all.push((at + 1, plain));
    }
    all
}

/// The value of "Content-Transfer-Encoding: ...".
fn encoding(line: &str) -> Option<&str> {
    let (name, value) = line.split_once(':')?;
    name.eq_ignore_ascii_case("content-transfer-encoding").then(|| value.trim())
}

/// Whether each `=` is followed by text that quoted-printable allows, and at least one by a byte.
fn looks_encoded(text: &str) -> bool {
    text.lines().all(fits)
        && text.match_indices('=').any(|(at, _)| byte(&text.as_bytes()[at + 1..]).is_some())
}

/// Whether each `=` of a line is followed by a byte or by the line's end.
fn fits(line: &str) -> bool {
    let mut signs = line.match_indices('=').map(|(at, _)| &line[at + 1..]);
    signs.all(|behind| byte(behind.as_bytes()).is_some() || behind.trim_end().is_empty())
}

/// Whether the part of a mail that begins with these lines can be quoted-printable.
fn may_be_encoded<'a>(part: impl Iterator<Item = (usize, &'a str)>) -> bool {
    // The next part begins with a boundary, which is a single word; the next mail of a mailbox with "From ".
    let is_boundary = |line: &str| {
        line.starts_with("--") && !line.trim_end().contains(' ') && line.contains(char::is_alphanumeric)
    };
    let ends = |line: &str| is_boundary(line) || line.starts_with("From ") || encoding(line).is_some();
    part.map(|(_, line)| line).take_while(|line| !ends(line)).all(fits)
}

fn byte(digits: &[u8]) -> Option<u8> {
    let [high, low, ..] = digits else { return None };
    let digit = |b: u8| char::from(b).to_digit(16).filter(|_| !b.is_ascii_lowercase());
    u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
}

/// A line and its continuations, decoded. Bytes that are not UTF-8 are replaced.
fn decoded<'a>(line: &'a str, rest: &mut Peekable<impl Iterator<Item = (usize, &'a str)>>) -> String {
    let mut all = Vec::new();
    let mut line = line;
    loop {
        let trimmed = line.trim_end();
        let soft = trimmed.strip_suffix('=');
        decode(soft.unwrap_or(line), &mut all);
        match rest.next_if(|_| soft.is_some()) {
            Some((_, next)) => line = next,
            None => return String::from_utf8_lossy(&all).into_owned(),
        }
    }
}

fn decode(line: &str, into: &mut Vec<u8>) {
    let mut rest = line.as_bytes();
    while let [first, behind @ ..] = rest {
        match byte(behind).filter(|_| *first == b'=') {
            Some(byte) => {
                into.push(byte);
                rest = &behind[2..];
            }
            None => {
                into.push(*first);
                rest = behind;
            }
        }
    }
}

/// A line without quote marks and surrounding blanks.
pub fn unquoted(line: &str) -> &str {
    line.trim_start_matches(['>', ' ', '\t', '|']).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded_lines(text: &str) -> Vec<(usize, String)> {
        lines(text).into_iter().map(|(at, line)| (at, line.into_owned())).collect()
    }

    #[test]
    fn encoded_lines_are_joined_and_keep_their_numbers() {
        let text = "a =C2=B1  2% =\n b =\r\nc\nlast =3D x\n";
        assert_eq!(decoded_lines(text), [(1, "a \u{b1}  2%  b c".to_owned()), (4, "last = x".to_owned())]);
        assert_eq!(decoded_lines("=C2=B1="), [(1, "\u{b1}".to_owned())]);
        assert_eq!(decoded_lines("=B1"), [(1, "\u{fffd}".to_owned())]);
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        for text in ["===\n", "a=b =C2\n", "a=\nb", "=c2", "=C", "="] {
            let plain: Vec<String> = decoded_lines(text).into_iter().map(|(_, line)| line).collect();
            assert_eq!(plain, text.lines().collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn a_mail_that_was_saved_decoded_stays_as_it_is() {
        let head = "Content-Transfer-Encoding: quoted-printable\n\n";
        let whole =
            |text: &str| decoded_lines(text).into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
        for body in ["====\nb =41", "a=b\nb =\nc"] {
            assert_eq!(whole(&format!("{head}{body}")), format!("{head}{body}"));
        }
        // Other parts and mails do not count.
        let next = "--=_1\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n====";
        for next in [next, "From a\nDKIM-Signature: v=1\nContent-Transfer-Encoding: 8bit\n\n===="] {
            assert_eq!(whole(&format!("{head}a=\nb =41\n{next}")), format!("{head}ab A\n{next}"));
        }
    }

    #[test]
    fn the_head_of_each_mail_decides() {
        let head =
            |encoding: &str| format!("From: a\nContent-Transfer-Encoding: {encoding}\nX: =41\n\n=41=\nb\n");
        let text = head("Quoted-Printable") + &head("8bit");
        let bodies: Vec<String> = decoded_lines(&text).into_iter().map(|(_, line)| line).collect();
        assert_eq!(
            (&bodies[2..5], &bodies[8..]),
            (
                &["X: =41".to_owned(), String::new(), "Ab".to_owned()][..],
                &[String::new(), "=41=".to_owned(), "b".to_owned()][..],
            )
        );
    }
}
