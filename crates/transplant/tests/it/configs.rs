//! Other configurations: preemption models, and options that an image refuses.

use crate::again::{Asked, built, machine, series_or_default, works_as};
use crate::engine::{Engine, Program};
use schedlab_base::Error;
use schedlab_transplant::abi::{Attr, kind, view};
use schedlab_transplant::load::{Image, NewTask};

const MS: u64 = 1_000_000;

/// Wakes a kernel task on the CPU of a hog that is in a system call. Prints whether the CPU has to switch in the
/// kernel, and whether the switch is a preemption.
fn wakes_in_the_kernel(mut image: Image, model: &str) {
    if !model.is_empty() {
        let _ = image.set_tunable("preempt", model);
    }
    let mut engine = Engine::new(image, machine(1, 2, 1));
    if !model.is_empty() {
        engine.image.enter(0);
        engine.image.set_tunable("preempt", model).unwrap();
        let now = engine.image.tunables().into_iter().find(|(name, _)| name == "preempt").unwrap().1;
        assert!(now.contains(&format!("({model})")), "{now}");
    }
    let hog = Program { run: 1000 * MS, sleep: 0 };
    engine.start(&Engine::fair("hog", Some(&[1])), hog, 0);
    let attr = Attr { policy: 1, rt_priority: 50, ..Attr::default() };
    let sleeper = NewTask { attr, ..Engine::fair("urgent", Some(&[1])) };
    let pid = engine.start(&sleeper, Program { run: 10_000, sleep: 900 * MS }, 0);
    engine.run(20 * MS);
    engine.image.enter(0);
    engine.image.clear();
    assert!(engine.image.wake(pid, false));
    let resched = engine.image.flags() & view::RESCHED != 0;
    engine.image.schedule();
    let preempted = engine.image.notes().iter().find(|n| n.kind == kind::SWITCH).map(|n| n.flags);
    println!("= {resched} {preempted:?} {}", engine.image.current() == pid);
}

#[test]
fn a_preemptible_kernel_boots_and_preempts() {
    let asked = Asked { config: "CONFIG_PREEMPT=y\n", ..Asked::default() };
    let said = works_as("configs::a_preemptible_kernel_boots_and_preempts", asked, |image| {
        wakes_in_the_kernel(image, "");
    });
    let Some(said) = said else { return };
    assert_eq!(said, ["true Some(1) true"]);
}

#[test]
fn a_dynamic_kernel_takes_its_model_from_debugfs() {
    const CONFIG: &str = "CONFIG_PREEMPT_DYNAMIC=y\n";
    if series_or_default() == "5.10" {
        let Some(made) = built(Vec::new(), Some(("dynamic.config".to_owned(), CONFIG.to_owned()))) else {
            return;
        };
        let error: Error = made.unwrap_err();
        return assert!(error.message().contains("CONFIG_PREEMPT_DYNAMIC=y"), "5.12 brings it: {error}");
    }
    let asked = Asked { config: CONFIG, ..Asked::default() };
    let said = works_as("configs::a_dynamic_kernel_takes_its_model_from_debugfs", asked, |image| {
        wakes_in_the_kernel(image, "full");
    });
    let Some(said) = said else { return };
    assert_eq!(said, ["true Some(1) true"]);
}

#[test]
fn an_option_that_an_image_can_not_have_is_an_error() {
    let fragment = Some(("rt.config".to_owned(), "CONFIG_PREEMPT_RT=y\n".to_owned()));
    let Some(made) = built(Vec::new(), fragment) else { return };
    let error: Error = made.unwrap_err();
    assert!(
        error.message().contains("rt.config") && error.message().contains("CONFIG_PREEMPT_RT=y"),
        "{error}"
    );
    assert!(error.remedy().is_some_and(|words| words.contains("backend 'vm'")), "{error}");
}

/// Two hogs share a CPU for a second, with HRTICK and without it. Prints first whether the tree has it on, then their
/// switches.
#[test]
fn hrtick_ends_slices_between_ticks_and_is_on_if_the_release_has_it_on() {
    let test = "configs::hrtick_ends_slices_between_ticks_and_is_on_if_the_release_has_it_on";
    let of = |variables| {
        works_as(test, Asked { variables, ..Asked::default() }, |image| {
            let mut engine = Engine::new(image, machine(1, 2, 1));
            let by_default = engine.image.features().iter().any(|(name, on)| name == "HRTICK" && *on);
            let on = std::env::var_os("SCHEDLAB_TEST_HRTICK").is_some();
            assert!(engine.image.set_feature("HRTICK", on));
            for name in ["one", "other"] {
                engine.start(&Engine::fair(name, Some(&[1])), Program { run: 2000 * MS, sleep: 0 }, 0);
            }
            engine.run(1000 * MS);
            let switches = engine.notes.iter().filter(|n| n.kind == kind::SWITCH && n.cpu == 0).count();
            println!("= {by_default}");
            println!("= {switches}");
        })
    };
    let Some(off) = of(&[]) else { return };
    let Some(on) = of(&[("SCHEDLAB_TEST_HRTICK", "1")]) else { return };
    let switches = |said: &[String]| said[1].parse::<u64>().unwrap();
    assert!(switches(&on) > switches(&off) * 5 / 4, "{on:?} with it, {off:?} without");
    let major: u32 = series_or_default().split('.').next().unwrap_or_default().parse().unwrap_or(6);
    assert_eq!(on[0], (major >= 7).to_string(), "7.0 has it on by default");
}
