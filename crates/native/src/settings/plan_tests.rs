//! Variants and settings as writes, on machines that exist only in memory.

use super::expand::expand;
use super::fake::FakeKernel;
use super::form::Form;
use super::plan::Plan;
use super::survey::{Access, survey};
use super::table::{SETTINGS, check};
use schedlab_base::Ns;
use schedlab_kernel::{Change, Variant};
use std::collections::BTreeMap;

const FEATURES: &str = "/sys/kernel/debug/sched/features";
const CPU: &str = "/sys/devices/system/cpu";

fn modern() -> FakeKernel {
    let mut files = vec![
        (FEATURES.to_owned(), "PLACE_LAG RUN_TO_PARITY NO_NEXT_BUDDY"),
        ("/sys/kernel/debug/sched/base_slice_ns".to_owned(), "1400000"),
        ("/sys/kernel/debug/sched/tunable_scaling".to_owned(), "1"),
        ("/sys/kernel/debug/sched/preempt".to_owned(), "none voluntary (full) lazy"),
        ("/proc/sys/kernel/osrelease".to_owned(), "6.12.1-test"),
        ("/proc/sys/kernel/sched_autogroup_enabled".to_owned(), "1"),
        (format!("{CPU}/online"), "0-1"),
        (format!("{CPU}/smt/control"), "notsupported"),
        (format!("{CPU}/intel_pstate/no_turbo"), "0"),
    ];
    for cpu in ["cpu2", "cpu10"] {
        files.push((format!("{CPU}/{cpu}/cpufreq/scaling_governor"), "powersave"));
        files.push((format!("{CPU}/{cpu}/cpufreq/scaling_available_governors"), "performance powersave"));
        files.push((format!("{CPU}/{cpu}/cpufreq/scaling_min_freq"), "800000"));
        for (i, name) in ["POLL", "C1", "C6"].iter().enumerate() {
            files.push((format!("{CPU}/{cpu}/cpuidle/state{i}/name"), name));
            files.push((format!("{CPU}/{cpu}/cpuidle/state{i}/disable"), "0"));
        }
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    FakeKernel::with(&files)
}

fn writes(kernel: &FakeKernel, name: &str, value: &str) -> Vec<(String, String)> {
    let all = expand(kernel, name, value).unwrap();
    all.into_iter().map(|w| (w.path.display().to_string(), w.value)).collect()
}

fn error(kernel: &FakeKernel, name: &str, value: &str) -> String {
    expand(kernel, name, value).unwrap_err().to_string()
}

#[test]
fn every_cpu_gets_it_in_the_order_of_numbers() {
    let all = writes(&modern(), "governor", "performance");
    let paths: Vec<&str> = all.iter().map(|(p, _)| p.as_str()).collect();
    assert_eq!(paths, [2, 10].map(|n| format!("{CPU}/cpu{n}/cpufreq/scaling_governor")));
    assert!(error(&modern(), "governor", "schedutil").contains("it has performance, powersave"));
}

#[test]
fn boost_is_the_opposite_of_no_turbo() {
    assert_eq!(writes(&modern(), "boost", "off"), [(format!("{CPU}/intel_pstate/no_turbo"), "1".to_owned())]);
}

#[test]
fn the_deepest_idle_state_allowed_disables_those_behind_it() {
    let of = |value: &str| -> String {
        writes(&modern(), "idle_states", value).iter().map(|(_, v)| v.as_str()).collect()
    };
    assert_eq!([of("POLL"), of("c1"), of("C6"), of("all")], ["011011", "001001", "000000", "000000"]);
    assert!(error(&modern(), "idle_states", "C1E").contains("unknown idle state 'C1E'"));
}

#[test]
fn missing_or_forbidden_settings_are_named_with_a_remedy() {
    let mut kernel = modern();
    assert!(error(&kernel, "smt", "off").contains("says 'notsupported'"));
    let none = error(&kernel, "sched_latency_ns", "6ms");
    assert!(none.contains("debug/sched/latency_ns (5.13 to 6.5)") && none.contains("without it"), "{none}");
    let unmounted = error(&FakeKernel::default(), "features", "NEXT_BUDDY");
    assert!(unmounted.contains("mount -t debugfs"), "{unmounted}");
    kernel.sealed.push("/proc/sys/kernel/sched_autogroup_enabled".into());
    let sealed = error(&kernel, "autogroup", "0");
    assert!(sealed.contains("sched_autogroup_enabled") && sealed.contains("CAP_DAC_OVERRIDE"), "{sealed}");
    assert!(error(&kernel, "features", "NO_PLACE_LAGG").contains("did you mean 'PLACE_LAG'"));
    assert!(error(&kernel, "features", "SIS_FIRST_IDLE").contains("feature of the simulator"));
}

#[test]
fn values_are_checked_on_any_machine() {
    for (name, value) in [
        ("base_slice_ns", "3ms"),
        ("autogroup", "off"),
        ("features", "no_next_buddy,PLACE_LAG"),
        ("rt_runtime_us", "-1"),
        ("preempt", "lazy"),
        ("idle_states", "C1E"),
        ("file:/sys/fs/cgroup/a/cpu.weight", "200"),
    ] {
        check(name, value).unwrap();
    }
    for (name, value, says) in [
        ("autogruop", "1", "'autogroup'"),
        ("autogroup", "2", "0 or 1"),
        ("base_slice_ns", "3", "100000 to"),
        ("nr_migrate", "3ms", "1 to 1024"),
        ("preempt", "fully", "'full'"),
        ("features", "A,,B", "NO_NAME"),
        ("file:cpu.weight", "1", "absolute path"),
        ("governor", "a b", "does not take"),
        ("smt", "", "one value"),
    ] {
        let e = check(name, value).unwrap_err();
        assert!(e.to_string().contains(says) && e.kind().exit_code() == 2, "{e}");
    }
}

#[test]
fn a_variants_slice_is_multiplied_for_the_cpus_and_a_setting_is_not() {
    let kernel = modern();
    let mut v = Variant::plain("running");
    v.tunables.insert("base_slice_ns".into(), 3_000_000);
    assert_eq!(Plan::on(&kernel, &v).unwrap().writes[0].value, "6000000");
    kernel.files.borrow_mut().insert("/sys/kernel/debug/sched/tunable_scaling".into(), "0\n".into());
    assert_eq!(Plan::on(&kernel, &v).unwrap().writes[0].value, "3000000");
    v.settings.insert("base_slice_ns".into(), "4ms".into());
    assert!(Plan::on(&kernel, &v).unwrap_err().to_string().contains("given two values"));
    v.tunables = BTreeMap::from([("hz".into(), 1000)]);
    let e = Plan::on(&kernel, &v).unwrap_err().to_string();
    assert!(e.contains("variant 'running'") && e.contains("CONFIG_HZ"), "{e}");
}

#[test]
fn a_tunable_of_the_kernels_own_is_its_file() {
    let kernel = modern();
    let file = "/sys/kernel/debug/sched/llc_balancing/enabled";
    let plan = |name: &str| {
        let mut v = Variant::plain("running");
        v.tunables.insert(name.to_owned(), 0);
        Plan::on(&kernel, &v).map(|plan| plan.writes)
    };
    let none = plan("llc_balancing/enabled").unwrap_err().to_string();
    assert!(none.contains("this kernel has no tunable 'llc_balancing/enabled'"), "{none}");
    kernel.files.borrow_mut().insert(file.into(), "1\n".into());
    kernel.files.borrow_mut().insert("/proc/sys/kernel/sched_bore".into(), "1\n".into());
    let writes = plan("llc_balancing/enabled").unwrap();
    assert_eq!((writes.len(), writes[0].path.to_str(), writes[0].value.as_str()), (1, Some(file), "0"));
    assert_eq!(plan("sched_bore").unwrap()[0].path.to_str(), Some("/proc/sys/kernel/sched_bore"));
    for odd in ["sched_brew", "/proc/sys/kernel/sched_bore", "../sched/features"] {
        let e = plan(odd).unwrap_err().to_string();
        assert!(e.contains("unknown tunable") || e.contains("no tunable"), "{odd}: {e}");
    }
}

#[test]
fn changes_within_a_run_have_their_times() {
    let mut v = Variant::plain("running");
    v.features = vec!["NEXT_BUDDY".into()];
    v.settings.insert("autogroup".into(), "0".into());
    let features = vec!["NO_NEXT_BUDDY".into(), "no_place_lag".into()];
    v.at = vec![Change { time: Ns::secs(5), features, ..Change::default() }];
    let plan = Plan::on(&modern(), &v).unwrap();
    let values =
        |writes: &[super::Write]| writes.iter().map(|w| w.value.clone()).collect::<Vec<_>>().join(" ");
    assert_eq!((values(&plan.writes).as_str(), plan.all().count()), ("NEXT_BUDDY 0", 4));
    assert_eq!(
        (plan.later[0].time, values(&plan.later[0].writes).as_str()),
        (Ns::secs(5), "NO_NEXT_BUDDY NO_PLACE_LAG")
    );
}

#[test]
fn the_survey_shows_present_values_in_accepted_words() {
    let mut kernel = modern();
    kernel.sealed.push(FEATURES.into());
    let all = survey(&kernel);
    let of = |name: &str| all.iter().find(|s| s.name == name).unwrap();
    assert_eq!(all.len(), SETTINGS.len());
    assert_eq!((of("boost").now.as_deref(), of("boost").access), (Some("1"), Access::Yes));
    assert_eq!((of("preempt").now.as_deref(), of("idle_states").now.as_deref()), (Some("full"), Some("all")));
    assert_eq!((of("smt").access, of("autogroup").now.as_deref()), (Access::Missing, Some("1")));
    assert_eq!((of("features").access, of("compat_yield").access), (Access::Refused, Access::Missing));
    assert_eq!(of("features").now.as_deref(), Some("PLACE_LAG,RUN_TO_PARITY,NO_NEXT_BUDDY"));
    assert!(of("compat_yield").remedy.as_deref().unwrap().contains("2.6.23 to 2.6.38"));
}

#[test]
fn names_and_places_are_given_once() {
    for (i, row) in SETTINGS.iter().enumerate() {
        assert!(SETTINGS[..i].iter().all(|other| other.name != row.name), "{}", row.name);
        assert!(
            row.places
                .iter()
                .all(|p| p.pattern.starts_with('/') && p.form != Form::Feature || row.name == "features")
        );
    }
}
