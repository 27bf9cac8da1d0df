//! Mails: splits a mailbox, and undoes the encodings in which mail programs send text.
//!
//! Mirrors mbox(5), RFC 2045 (quoted-printable, base64) and the subjects of `git format-patch`. The parts of a
//! multi-part mail are not separated: their text is searched for diffs like any other.

use base64::Engine;

/// A mail, or another text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mail {
    /// The subject, unfolded, with its brackets.
    pub subject: Option<String>,
    /// The text, decoded.
    pub body: Vec<u8>,
    /// Line of the file at which the text begins, from 1.
    pub first_line: usize,
}

impl Mail {
    /// The subject without "[PATCH ...]".
    pub fn title(&self) -> Option<String> {
        let text = self.subject.as_deref()?.trim();
        let bare = match text.strip_prefix('[').and_then(|t| t.split_once(']')) {
            Some((_, rest)) => rest.trim(),
            None => text,
        };
        (!bare.is_empty()).then(|| bare.to_owned())
    }
    /// The mail's number in its series: 2 of "[PATCH v3 2/7]".
    pub fn place(&self) -> Option<u32> {
        let (inner, _) = self.subject.as_deref()?.trim().strip_prefix('[')?.split_once(']')?;
        inner.split_whitespace().find_map(|word| {
            let (place, of) = word.split_once('/')?;
            of.parse::<u32>().ok()?;
            place.parse().ok()
        })
    }
    /// Whether it answers another mail.
    pub fn is_reply(&self) -> bool {
        self.subject.as_deref().is_some_and(|s| s.trim().to_ascii_lowercase().starts_with("re:"))
    }
}

/// The mails of a file. A file that does not begin like a mail is one text.
pub fn split(bytes: &[u8]) -> Vec<Mail> {
    let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
    // The blank line before a mail may end with CR LF.
    let starts = |i: &usize| begins(lines[*i]) && (*i == 0 || lines[*i - 1].trim_ascii().is_empty());
    let mut at: Vec<usize> = (0..lines.len()).filter(starts).collect();
    if at.first() != Some(&0) {
        at.insert(0, 0);
    }
    let ends = at.iter().skip(1).copied().chain([lines.len()]);
    at.iter().zip(ends).map(|(from, to)| mail(&lines[*from..to], *from)).collect()
}

/// Whether a line is "From SENDER DATE". A date has a time of day; a sentence that begins with From has none.
fn begins(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    text.strip_prefix("From ").is_some_and(|rest| {
        let words: Vec<&str> = rest.split_whitespace().collect();
        words.len() >= 6 && words.iter().any(|w| w.matches(':').count() == 2)
    })
}

fn mail(lines: &[&[u8]], before: usize) -> Mail {
    let skipped = usize::from(lines.first().is_some_and(|l| begins(l)));
    let head_end = lines.iter().position(|l| l.trim_ascii().is_empty()).unwrap_or(lines.len());
    let head = headers(&lines[skipped.min(head_end)..head_end]);
    let Some(head) = head else {
        return Mail { subject: None, body: lines.join(&b'\n'), first_line: before + 1 };
    };
    let of = |name: &str| head.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)).map(|(_, v)| v.clone());
    let rest = lines.get(head_end + 1..).unwrap_or_default().join(&b'\n');
    let encoding = of("Content-Transfer-Encoding").unwrap_or_default().trim().to_ascii_lowercase();
    let body = match encoding.as_str() {
        "quoted-printable" => quoted_printable(&rest),
        "base64" => base64_text(&rest).unwrap_or(rest),
        _ => rest,
    };
    Mail { subject: of("Subject"), body, first_line: before + head_end + 2 }
}

/// Header lines with their continuations unfolded; `None` when a line is not a header.
fn headers(lines: &[&[u8]]) -> Option<Vec<(String, String)>> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in lines {
        let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        if text.starts_with([' ', '\t']) {
            let (_, value) = all.last_mut()?;
            value.push(' ');
            value.push_str(text.trim());
            continue;
        }
        let (name, value) = text.split_once(':')?;
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !is_name {
            return None;
        }
        all.push((name.to_owned(), value.trim().to_owned()));
    }
    (!all.is_empty()).then_some(all)
}

/// RFC 2045, 6.7: "=3D" is a byte, "=" at a line's end joins it with the next.
fn quoted_printable(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let hex = |b: u8| char::from(b).to_digit(16);
        match rest {
            [b'=', b'\r', b'\n', ..] => at += 3,
            [b'=', b'\n', ..] => at += 2,
            [b'=', a, b, ..] if hex(*a).is_some() && hex(*b).is_some() => {
                let value = hex(*a).unwrap_or_default() * 16 + hex(*b).unwrap_or_default();
                out.push(value as u8);
                at += 3;
            }
            _ => {
                out.push(rest[0]);
                at += 1;
            }
        }
    }
    out
}

fn base64_text(text: &[u8]) -> Option<Vec<u8>> {
    let bare: Vec<u8> = text.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
    base64::engine::general_purpose::STANDARD.decode(bare).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: &str = "From 1111 Mon Sep 17 00:00:00 2001\nFrom: a@b\nSubject: [PATCH v2 2/3] sched: one\n \
                       more word\n\nFrom the start it was\nbody\n\nFrom 2222 Mon Sep 17 00:00:00 2001\nSubject: \
                       Re: [PATCH]\n\nno\n";

    #[test]
    fn a_mailbox_is_split_at_its_from_lines() {
        let all = split(BOX.as_bytes());
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].title().as_deref(), Some("sched: one more word"));
        assert_eq!((all[0].place(), all[0].is_reply(), all[1].is_reply()), (Some(2), false, true));
        assert!(all[0].body.starts_with(b"From the start"), "a sentence is no mail's beginning");
        assert_eq!((all[0].first_line, all[1].first_line), (6, 12));
    }

    #[test]
    fn a_mailbox_with_the_line_ends_of_dos_is_split_alike() {
        let (unix, dos) = (split(BOX.as_bytes()), split(BOX.replace('\n', "\r\n").as_bytes()));
        let told = |all: &[Mail]| -> Vec<_> {
            all.iter().map(|m| (m.title(), m.place(), m.is_reply(), m.first_line)).collect()
        };
        assert_eq!(told(&unix), told(&dos));
    }

    #[test]
    fn encodings_are_undone() {
        let text = "Subject: x\nContent-Transfer-Encoding: quoted-printable\n\nif (a =3D=3D b=\n)\n=zz";
        assert_eq!(split(text.as_bytes())[0].body, b"if (a == b)\n=zz");
        let text = "Subject: x\nContent-Transfer-Encoding: base64\n\nLS0tIGEv\neAo=\n";
        assert_eq!(split(text.as_bytes())[0].body, b"--- a/x\n");
    }

    #[test]
    fn a_bare_diff_is_one_text() {
        let all = split(b"--- a/x\n+++ b/x\n\n@@ -1 +1 @@\n");
        assert_eq!((all.len(), all[0].first_line, all[0].subject.is_none()), (1, 1, true));
        assert!(all[0].body.starts_with(b"--- a/x"));
    }
}
