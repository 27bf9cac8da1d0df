//! A setting as what a system keeps: a tuned profile, a script, or lines for a unit of systemd.
//!
//! Settings of the kernel are written as the files of this machine and their contents, so the product with the number
//! of CPUs is that of this machine. Attributes of tasks belong to a command, and a scheduler to a program that stays.

use crate::ask::scx::is_object;
use schedlab_base::{Error, Result};
use schedlab_kernel::group::ROOT;
use schedlab_kernel::policy::{EVERY_TASK, Policy};
use schedlab_kernel::{AttrChange, Variant};
use schedlab_native::exec::Attributes;
use schedlab_native::settings::{Form as FileForm, Plan, Write};

/// How a setting is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Tuned,
    Script,
    Systemd,
}

/// The folder of sysctls. A profile of tuned has a section of its own for them: its section of files refuses what is
/// not below /sys (tuned 2.20).
const SYSCTLS: &str = "/proc/sys";

impl Form {
    /// Its word on the command line.
    pub const ALL: [(&'static str, Form); 3] =
        [("tuned", Form::Tuned), ("script", Form::Script), ("systemd", Form::Systemd)];
}

/// The text of a setting in a form. `about` says how it was found, one line.
///
/// # Errors
/// When this machine lacks a setting, or the form has no place for an attribute.
pub fn profile(winner: &Variant, form: Form, about: &str, command: &str) -> Result<String> {
    let writes = Plan::of(winner)?.writes;
    let attributes = Attributes {
        change: winner.tasks.get(EVERY_TASK).copied().unwrap_or_default(),
        cpus: winner.groups.iter().find(|group| group.path == ROOT).and_then(|root| root.cpus.clone()),
        priority: None,
    };
    let scheduler = winner.scx.as_ref().map(|scx| scx.command.as_str());
    let file = winner.scx.as_ref().and_then(|scx| Some(scx.words()?.0));
    if file.is_some_and(|file| std::fs::read(file).is_ok_and(|bytes| is_object(&bytes))) {
        return Err(Error::input(
            "the scheduler is an object, and only its program can load it on a real kernel",
        )
        .help("name the program in --try scx=PROGRAM"));
    }
    match form {
        Form::Tuned => tuned(&writes, &attributes, scheduler, about),
        Form::Script => Ok(script(&writes, &attributes, scheduler, about, command)),
        Form::Systemd => systemd(&writes, &attributes, scheduler, about),
    }
}

/// Where a system keeps what this form has no place for.
fn elsewhere(form: &str, what: &str) -> Error {
    Error::input(format!("{form} has no place for {what}")).help("--write script:FILE has one")
}

fn tuned(writes: &[Write], attributes: &Attributes, scheduler: Option<&str>, about: &str) -> Result<String> {
    if !attributes.is_empty() {
        return Err(elsewhere("a tuned profile", "attributes of a command's tasks"));
    }
    if scheduler.is_some() {
        return Err(elsewhere("a tuned profile", "a sched_ext scheduler"));
    }
    // When it stops, tuned writes back what it read. That fails where a file shows more than it takes.
    if let Some(write) = writes.iter().find(|write| write.form != FileForm::Plain) {
        let what = format!("{}, which it can't put back: the file lists more than it takes", write.setting);
        return Err(elsewhere("a tuned profile", &what));
    }
    let (sysctls, files): (Vec<&Write>, Vec<&Write>) =
        writes.iter().partition(|write| write.path.starts_with(SYSCTLS));
    let sysctl = |write: &&Write| {
        let path = write.path.strip_prefix(SYSCTLS).unwrap_or(&write.path);
        format!("{}={}\n", path.display().to_string().replace('/', "."), write.value)
    };
    let file = |write: &&Write| format!("{}={}\n", write.path.display(), write.value);
    let mut text = format!("# {about}\n[main]\nsummary=Found by schedlab tune\n");
    if !sysctls.is_empty() {
        text += &format!("\n[sysctl]\n{}", sysctls.iter().map(sysctl).collect::<String>());
    }
    if !files.is_empty() {
        text += &format!("\n[sysfs]\n{}", files.iter().map(file).collect::<String>());
    }
    Ok(text)
}

fn script(
    writes: &[Write],
    attributes: &Attributes,
    scheduler: Option<&str>,
    about: &str,
    command: &str,
) -> String {
    let mut text = format!("#!/bin/sh\n# {about}\nset -e\n");
    for write in writes {
        text += &format!("echo {} > {}\n", write.value, write.path.display());
    }
    if let Some(program) = scheduler {
        text += &format!("{program} &\n");
    }
    let options = words(attributes);
    if !options.is_empty() {
        text += &format!("exec schedlab exec {options} -- {command}\n");
    }
    text
}

/// Attributes as options of `schedlab exec`.
fn words(attributes: &Attributes) -> String {
    let AttrChange { policy, nice, slice } = attributes.change;
    let policy = policy.map(|policy| format!("--policy {}", policy));
    let nice = nice.map(|nice| format!("--nice {nice}"));
    let slice = slice.map(|slice| format!("--slice {}us", slice.0 / 1_000));
    let cpus = attributes.cpus.as_ref().map(|cpus| format!("--cpus {cpus}"));
    [policy, nice, slice, cpus].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn systemd(
    writes: &[Write],
    attributes: &Attributes,
    scheduler: Option<&str>,
    about: &str,
) -> Result<String> {
    let AttrChange { policy, nice, slice } = attributes.change;
    if slice.is_some() {
        return Err(elsewhere("a unit of systemd", "a slice"));
    }
    if let Some(policy) = policy.filter(|policy| matches!(policy, Policy::Ext | Policy::Deadline)) {
        return Err(elsewhere("a unit of systemd", &format!("policy {policy}")));
    }
    if scheduler.is_some() {
        return Err(elsewhere("a unit of systemd", "a sched_ext scheduler, which is a service of its own"));
    }
    let mut text = format!("# {about}\n[Service]\n");
    text += &policy.map(|policy| format!("CPUSchedulingPolicy={}\n", policy)).unwrap_or_default();
    text += &nice.map(|nice| format!("Nice={nice}\n")).unwrap_or_default();
    text += &attributes.cpus.as_ref().map(|cpus| format!("CPUAffinity={cpus}\n")).unwrap_or_default();
    for write in writes {
        let (value, path) = (&write.value, write.path.display());
        text += &format!("ExecStartPre=+/bin/sh -c 'echo {value} > {path}'\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::tune::space::with;

    fn text(words: &str, form: Form) -> Result<String> {
        let winner = with(&Variant::plain("running"), words, None)?;
        profile(&winner, form, "about it", "make -j8")
    }

    #[test]
    fn attributes_become_options_and_keys() {
        let script = text("policy=batch,nice=5,slice=3ms", Form::Script).unwrap();
        assert_eq!(
            script,
            "#!/bin/sh\n# about it\nset -e\nexec schedlab exec --policy batch --nice 5 --slice 3000us -- make -j8\n"
        );
        let unit = text("policy=batch,nice=5,cpus=0/2-3", Form::Systemd).unwrap();
        assert_eq!(unit, "# about it\n[Service]\nCPUSchedulingPolicy=batch\nNice=5\nCPUAffinity=0,2-3\n");
        assert!(text("cpus=0", Form::Script).unwrap().contains("schedlab exec --cpus 0 -- make"));
        assert!(text("cpus=0", Form::Tuned).is_err());
        assert!(text("slice=3ms", Form::Systemd).unwrap_err().to_string().contains("slice"));
        assert!(text("policy=ext", Form::Systemd).unwrap_err().to_string().contains("policy ext"));
        assert!(text("policy=batch", Form::Tuned).unwrap_err().to_string().contains("script"));
    }

    #[test]
    fn an_object_alone_is_not_written_as_a_program() {
        let object = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scx/fifo.bpf.o");
        let said = text(&format!("scx={object}"), Form::Script).unwrap_err().to_string();
        assert!(said.contains("object"), "{said}");
        assert!(text("scx=scx_mine", Form::Script).unwrap().contains("scx_mine &"));
    }

    #[test]
    fn writes_are_the_files_of_this_machine() {
        let write = |setting: &str, path: &str, form| Write {
            setting: setting.into(),
            path: path.into(),
            form,
            value: "0".into(),
        };
        let writes =
            [write("migration_cost_ns", "/proc/sys/kernel/sched_migration_cost_ns", FileForm::Plain)];
        let file = write("nr_migrate", "/sys/kernel/debug/sched/nr_migrate", FileForm::Plain);
        let both = [file, writes[0].clone()];
        let profile = tuned(&both, &Attributes::default(), None, "about it").unwrap();
        assert!(
            profile.ends_with(
                "\n[sysctl]\nkernel.sched_migration_cost_ns=0\n\n[sysfs]\n/sys/kernel/debug/sched/nr_migrate=0\n"
            ),
            "{profile}"
        );
        let listed = [write("preempt", "/sys/kernel/debug/sched/preempt", FileForm::Bracketed)];
        let said = tuned(&listed, &Attributes::default(), None, "about it").unwrap_err().to_string();
        assert!(said.contains("preempt, which it can't put back"), "{said}");
        let said = script(&writes, &Attributes::default(), Some("scx_mine -v"), "about it", "");
        assert!(
            said.contains("echo 0 > /proc/sys/kernel/sched_migration_cost_ns\nscx_mine -v &\n"),
            "{said}"
        );
        let unit = systemd(&writes, &Attributes::default(), None, "about it").unwrap();
        assert!(unit.contains("ExecStartPre=+/bin/sh -c 'echo 0 > /proc"), "{unit}");
    }
}
