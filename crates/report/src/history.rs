//! The chronology as text of at most 78 columns: all mechanisms, the behaviour of one version, or one mechanism.

use crate::text::wrap;
use schedlab_base::Version;
use schedlab_kernel::history::{HISTORY, Mechanism, UNMODELLED, Unmodelled};
use std::io::{self, Write};

/// Writes every mechanism: the releases that have it, and its effect.
pub fn all(out: &mut dyn Write) -> io::Result<()> {
    table(HISTORY.iter(), out)?;
    not_modelled(UNMODELLED.iter(), out)?;
    let legend = "Releases are those of kernel.org, as far as they are modelled. 'schedlab kernel history \
                  MECHANISM' prints where one was read, and the behaviour of kernels without it; VERSION in its \
                  place prints that of a profile, and any other word the mechanisms whose text has it.";
    write!(out, "\n{}", wrap("", legend))
}

/// Writes the mechanisms whose text contains these words.
pub fn matching(words: &str, mechanisms: &[&'static Mechanism], out: &mut dyn Write) -> io::Result<()> {
    let many = if mechanisms.len() == 1 { "mechanism" } else { "mechanisms" };
    writeln!(out, "{} {many} with '{words}' in name, function or text", mechanisms.len())?;
    table(mechanisms.iter().copied(), out)
}

fn table(mechanisms: impl Iterator<Item = &'static Mechanism>, out: &mut dyn Write) -> io::Result<()> {
    by_subject(mechanisms, out, |m, out| {
        let head = format!("  {:<28} ", m.name);
        write!(out, "{}", wrap(&head, &m.releases()))?;
        write!(out, "{}", wrap("      ", m.with))
    })
}

/// Writes how a version's kernel behaves, mechanism by mechanism. Mechanisms without meaning in it are left out.
pub fn profile(version: Version, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{version}: '+' it has the mechanism, '-' it has not; and what it does")?;
    let concern = HISTORY.iter().filter(|m| m.concerns(version));
    by_subject(concern, out, |m, out| {
        let (sign, does) = if m.is_in(version) { ('+', m.with) } else { ('-', m.without) };
        let head = format!("  {sign} {:<28} ", m.name);
        write!(out, "{}", wrap(&head, &m.because(version)))?;
        write!(out, "{}", wrap("      ", does))
    })?;
    not_modelled(UNMODELLED.iter().filter(|u| u.is_in(version)), out)
}

/// Known changes that the simulator does not model.
fn not_modelled(all: impl Iterator<Item = &'static Unmodelled>, out: &mut dyn Write) -> io::Result<()> {
    for (at, u) in all.enumerate() {
        if at == 0 {
            writeln!(out, "\nNot modelled")?;
        }
        write!(out, "{}", wrap("  ", &format!("{}: {} ({})", u.span, u.text, u.function)))?;
    }
    Ok(())
}

/// Writes one mechanism in full.
pub fn page(m: &Mechanism, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", m.name)?;
    let mut row = |head: &str, text: &str| write!(out, "{}", wrap(&format!("  {head:<9} "), text));
    row("part of", m.subject.title())?;
    row("releases", &m.releases())?;
    if let Some(whole) = m.within {
        row("within", whole)?;
    }
    row("function", m.function)?;
    row("read", &m.read.to_string())?;
    row("with it", m.with)?;
    row("without", m.without)
}

fn by_subject<'a>(
    mechanisms: impl Iterator<Item = &'a Mechanism>,
    out: &mut dyn Write,
    row: impl Fn(&Mechanism, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut subject = None;
    for m in mechanisms {
        if subject.replace(m.subject) != Some(m.subject) {
            writeln!(out, "\n{}", m.subject.title())?;
        }
        row(m, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::text;
    use schedlab_kernel::history::find;

    #[test]
    fn every_form_fits_a_mail() {
        let profiles = [Version::v2_6(12), Version::v2_6(27), Version::new(4, 5), Version::new(7, 3)];
        let mut forms = vec![text(all)];
        forms.extend(profiles.map(|v| text(|out| profile(v, out))));
        forms.extend(HISTORY.iter().map(|m| text(|out| page(m, out))));
        for line in forms.iter().flat_map(|f| f.lines()) {
            assert!(line.chars().count() <= 78, "{line}");
        }
    }

    #[test]
    fn a_profile_agrees_with_its_mechanisms() {
        let v45 = text(|out| profile(Version::new(4, 5), out));
        let flat = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let of = |name: &str| {
            let at = v45.lines().position(|l| l.split_whitespace().nth(1) == Some(name)).unwrap();
            v45.lines().skip(at).take(2).map(flat).collect::<Vec<_>>().join(" / ")
        };
        assert!(!v45.contains("merged-search") && !v45.contains("custom-slices"), "{v45}");
        assert_eq!(
            of("core-search"),
            "- core-search comes with v4.9 / The search goes group by group for one whose CPUs are all idle."
        );
        assert!(of("per-entity-load").starts_with("+ per-entity-load since v3.8"));
        assert!(of("half-empty-affine").starts_with("- half-empty-affine gone since v3.18"));
    }

    #[test]
    fn a_mechanism_names_its_function_and_its_source() {
        let one = text(|out| page(find("core-search").unwrap(), out));
        for words in ["from v4.9", "select_idle_core()", "3.19 to 4.9", "idle sibling", "group by group"] {
            assert!(one.contains(words), "{words}: {one}");
        }
    }
}
