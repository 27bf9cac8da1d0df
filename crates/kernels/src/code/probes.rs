//! Learns by compiling which names and signatures a tree has. Its version does not say: stable series change
//! signatures, too.
//!
//! `image/probes.c` is compiled for its errors. After a line `/* PROBE(NAME) */` stands a function that uses a
//! signature or a name. If its lines have no error, a header for the shims defines `HAVE_NAME`.

use super::Overlay;
use crate::make::{Make, Step};
use schedlab_base::{Error, Result, temp};
use std::fs;
use std::sync::atomic::Ordering;

const FILE: &str = "image/probes.c";
const OBJECT: &str = "arch/sim/image/probes.o";
/// The header with the answers, in the folder of objects.
const HEADER: &str = "include/generated/img_have.h";

/// Compiles the probes, beside other objects, and writes the header. It is not rewritten with equal answers, which
/// would compile everything again.
///
/// # Errors
/// When anything but a probe can't be compiled.
pub(super) fn ask(
    make: &Make<'_>,
    overlay: Overlay<'_>,
    beside: &[String],
    step: &mut dyn FnMut(Step),
) -> Result<()> {
    let probes = Probes::of(overlay.text(FILE)?);
    // The others are made although probes fail.
    let made = super::run(
        make,
        [OBJECT, "-k", super::WITHOUT_PROGRAMS].into_iter().chain(beside.iter().map(String::as_str)),
        step,
    );
    let failed = match made {
        Ok(_) => Vec::new(),
        Err(error) => {
            let log = fs::read_to_string(&make.log).map_err(|e| Error::io(&make.log, "read", &e))?;
            match probes.failed(&log) {
                Some(failed) if !make.stop.load(Ordering::Relaxed) => failed,
                _ => return Err(error),
            }
        }
    };
    // A failed compile may leave an object, which make would take as up to date for the next tree.
    let _ = fs::remove_file(make.objects.join(OBJECT));
    let header = probes.header(&failed);
    let place = make.objects.join(HEADER);
    if fs::read(&place).is_ok_and(|old| old == header.as_bytes()) {
        return Ok(());
    }
    temp::write_whole(&place, header.as_bytes())
}

/// The probes of a file: name and line of each mark.
struct Probes<'a>(Vec<(&'a str, usize)>);

impl<'a> Probes<'a> {
    fn of(text: &'a str) -> Probes<'a> {
        let name = |line: &'a str| line.strip_prefix("/* PROBE(")?.strip_suffix(") */");
        Probes(text.lines().enumerate().filter_map(|(i, line)| Some((name(line)?, i + 1))).collect())
    }
    /// The probes with errors; `None` if there is an error outside of them.
    fn failed(&self, log: &str) -> Option<Vec<&'a str>> {
        let errors = log.lines().filter(|l| l.contains(" error: "));
        let mut failed = errors.map(|line| self.at(line)).collect::<Option<Vec<_>>>()?;
        failed.dedup();
        (!failed.is_empty()).then_some(failed)
    }
    /// The probe to which a line of the compiler points: "../arch/sim/image/probes.c:31:59: error: ...".
    fn at(&self, line: &str) -> Option<&'a str> {
        let (_, rest) = line.split_once("image/probes.c:")?;
        let number: usize = rest.split(':').next()?.parse().ok()?;
        self.0.iter().rev().find(|(_, from)| *from < number).map(|(name, _)| *name)
    }
    fn header(&self, failed: &[&str]) -> String {
        let has = self.0.iter().filter(|(name, _)| !failed.contains(name));
        has.map(|(name, _)| format!("#define HAVE_{name} 1\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "#include <x.h>\n/* PROBE(A) */\nint a(void) { }\n/* PROBE(B) */\nint b(void) { }\n";

    #[test]
    fn a_probe_with_an_error_is_absent() {
        let probes = Probes::of(TEXT);
        let log =
            "t/arch/sim/image/probes.c:5:3: error: no\n  CC x\nt/arch/sim/image/probes.c:5:9: error: no\n";
        let failed = probes.failed(log).unwrap();
        assert_eq!(
            (failed.as_slice(), probes.header(&failed)),
            (["B"].as_slice(), "#define HAVE_A 1\n".into())
        );
    }

    #[test]
    fn an_error_elsewhere_is_an_error() {
        let probes = Probes::of(TEXT);
        for log in
            ["t/include/x.h:5:3: error: no", "t/arch/sim/image/probes.c:1:3: error: no", "make: *** [x]"]
        {
            assert_eq!(probes.failed(log), None, "{log}");
        }
    }
}
