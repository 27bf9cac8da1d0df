//! Expressions in the strings of loads and commands: `{cpus}`, `{cpus*2}`.

use schedlab_base::{Error, Result};

/// Replaces every `{expression}` by its number. An expression is `cpus`, optionally with one of `* / + -` and a whole
/// number. The result is at least 1, so that half of one CPU is still a load.
pub fn expand(text: &str, cpus: u64) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let close = rest[open..]
            .find('}')
            .ok_or_else(|| Error::input(format!("'{text}' has a '{{' that is not closed")).help(HELP))?;
        out.push_str(&rest[..open]);
        let value = evaluate(&rest[open + 1..open + close], cpus)
            .ok_or_else(|| Error::input(format!("'{text}' can't be worked out")).help(HELP))?;
        out.push_str(&value.to_string());
        rest = &rest[open + close + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

const HELP: &str = "write {cpus}, {cpus*2}, {cpus/2}, {cpus+1} or {cpus-1}";

fn evaluate(expression: &str, cpus: u64) -> Option<u64> {
    let rest = expression.trim().strip_prefix("cpus")?.trim();
    let Some(operator) = rest.chars().next() else { return Some(cpus.max(1)) };
    let n: u64 = rest[operator.len_utf8()..].trim().parse().ok()?;
    let value = match operator {
        '*' => cpus.checked_mul(n)?,
        '/' => cpus.checked_div(n)?,
        '+' => cpus.checked_add(n)?,
        '-' => cpus.saturating_sub(n),
        _ => return None,
    };
    Some(value.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_scale_with_the_cpus() {
        for (text, want) in
            [("1x{cpus}", "1x8"), ("{cpus*2}+{ cpus / 2 }", "16+4"), ("{cpus-20}", "1"), ("7", "7")]
        {
            assert_eq!(expand(text, 8).unwrap(), want);
        }
        for wrong in ["{cpu}", "{cpus", "{cpus^2}", "{cpus/0}", "{cpus*}", "{}"] {
            assert!(expand(wrong, 8).unwrap_err().to_string().contains("{cpus*2}"), "{wrong}");
        }
    }
}
