//! Text in HTML. Names may come from anyone's files, so every text is escaped here.

use schedlab_base::printable;

/// Escapes text for elements and quoted attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable::lines(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// JSON for a script element: nothing in it ends the element or begins a comment.
pub fn json(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_becomes_markup() {
        let evil = "<img src=x onerror=\"a('&')\">";
        assert_eq!(escape(evil), "&lt;img src=x onerror=&quot;a(&#39;&amp;&#39;)&quot;&gt;");
        assert!(!escape("a\u{1b}[2J\u{202e}b").contains(['\u{1b}', '\u{202e}']));
        let name = serde_json::json!({ "n": "</script><!-- &" });
        let text = json(&name);
        assert!(!text.contains(['<', '>', '&']), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), name);
    }
}
