//! Names in text with blanks and slashes between its words: such characters are written as `%` and two
//! hexadecimal digits of each byte, so that different names stay different and come back as they were.

/// The name with its blanks, control characters and those of `also` escaped. A `%` is escaped where what follows would
/// make it an escape.
pub fn escaped(name: &str, also: &[char]) -> String {
    let mut text = String::new();
    for (at, c) in name.char_indices() {
        let is_escape = c == '%' && hex(&name[at..]).is_some();
        if is_escape || c.is_whitespace() || c.is_control() || also.contains(&c) {
            text += &escape(c);
        } else {
            text.push(c);
        }
    }
    text
}

/// One character, escaped.
pub fn escape(c: char) -> String {
    c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The name that was escaped. A text that no name gives is left as it is.
pub fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        match hex(rest) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[3..];
            }
            None => {
                bytes.extend(c.encode_utf8(&mut [0; 4]).bytes());
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// The byte of the escape that a text begins with.
fn hex(text: &str) -> Option<u8> {
    let digits = text.strip_prefix('%')?.get(..2)?;
    let all = digits.bytes().all(|b| b.is_ascii_hexdigit());
    all.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_differ_stay_different() {
        let of = |name: &str| escaped(name, &['/']);
        assert_eq!(["a b", "a_b", "a/b"].map(of), ["a%20b", "a_b", "a%2Fb"]);
        assert_eq!((of("50%"), of("50%20")), ("50%".to_owned(), "50%2520".to_owned()));
    }

    proptest! {
        #[test]
        fn every_name_comes_back(name in ".{0,20}", tricky in "[%/ 0-9a-f]{0,12}") {
            for name in [name, tricky] {
                let text = escaped(&name, &['/']);
                prop_assert_eq!(unescaped(&text), name);
                prop_assert!(!text.contains(|c: char| c.is_whitespace() || c == '/'));
            }
        }
    }
}
