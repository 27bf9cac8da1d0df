//! Boots real guests: the kernel in SCHEDLAB_TEST_KERNEL, under this machine's QEMU. Without a kernel or QEMU it boots
//! nothing and reports that.
//!
//! This executable also runs in the guest, as init and as agent, so it has its own main.

use schedlab_base::testing::skipped;
use schedlab_base::{Error, Result};
use schedlab_guest::{Accelerator, AtRest, Guest, Image, Mode, Visit, find_qemu, run};
use schedlab_kernel::{AttrChange, Variant, variant::RUNNING};
use schedlab_machine::Machine;
use schedlab_native::live::Request;
use schedlab_workload::{CommandSpec, Params, Spec};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

const KERNEL: &str = "SCHEDLAB_TEST_KERNEL";

fn main() -> ExitCode {
    if schedlab_guest::is_init() {
        schedlab_guest::init_main();
        return ExitCode::FAILURE;
    }
    if std::env::args().nth(1).is_some_and(|word| word == "agent") {
        return schedlab_native::agent_main().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    match guest() {
        Ok(guest) => {
            a_run_under_a_variant_comes_back_whole(&guest);
            a_command_is_taken_along(&guest);
            pairs_over_tcp_and_udp_are_made(&guest);
            a_refusal_comes_back_unchanged(&guest);
            a_kernel_that_can_not_start_init_is_recognised(&guest);
            files_that_are_not_kernels_are_reported(&guest);
            println!("boot: ok");
            if guest.qemu.can(Mode::Deterministic).is_ok() {
                a_run_from_rest_depends_on_its_seed_and_on_nothing_before(&guest);
                println!("boot: ok from rest");
            } else {
                skipped(format!("a QEMU for deterministic guests: this is {}", guest.qemu.number()));
            }
        }
        Err(why) => skipped(format!("a kernel to boot and QEMU: {why}")),
    }
    ExitCode::SUCCESS
}

/// The guest for the tests, or what is missing for it.
fn guest() -> std::result::Result<Guest, String> {
    let word = std::env::var(KERNEL)
        .map_err(|_| format!("{KERNEL} names no kernel: an image, or a word such as 6.1"))?;
    let image = Image::find(&word).map_err(|e| e.to_string())?;
    let qemu = find_qemu().map_err(|e| e.to_string())?;
    let (mode, accelerator) = (Mode::RealTime, Accelerator::Tcg);
    Ok(Guest { image, qemu, mode, accelerator, memory_mb: 512, boot_options: vec!["nosmt=force".into()] })
}

/// A run of schbench for one second.
fn request(variant: Variant) -> Request {
    let second = Params([("runtime".to_owned(), 1_000_000_000)].into());
    let spec = Spec::bench("schbench", &second).expect("schbench takes a runtime");
    Request { spec, variant, seed: 3, observe: schedlab_record::Observe::Accounts }
}

fn go(guest: &Guest, request: &Request) -> Result<Visit> {
    let machine = Machine::load("smp-2")?;
    let visit = run(&AtRest::new(), guest, &machine, request, false, &AtomicBool::new(false))?;
    visit.ok_or_else(|| Error::internal("nobody stopped it"))
}

fn a_run_under_a_variant_comes_back_whole(guest: &Guest) {
    let mut variant = Variant::plain("6.1");
    variant.features = vec!["NO_TTWU_QUEUE".to_owned()];
    variant.settings = [("rt_runtime_us".to_owned(), "900000".to_owned())].into();
    let batch = AttrChange { policy: Some(schedlab_kernel::Policy::Batch), ..AttrChange::default() };
    variant.tasks = [("*".to_owned(), batch)].into();
    let visit = go(guest, &request(variant)).unwrap();
    let outcome = &visit.outcome;
    assert!(outcome.found.series["schbench.latency"].count() > 10, "{outcome:?}");
    let stat = outcome.found.schedstat.as_ref().expect("init switches it on");
    assert_eq!(stat.cpus.len(), 2);
    assert!(stat.cpus.iter().map(|c| c.ttwu_count).sum::<u64>() > 10);
    let told = |key: &str| outcome.found.environment.get(key).map_or("", String::as_str);
    assert!(
        told("setting.features").starts_with("NO_TTWU_QUEUE (was TTWU_QUEUE"),
        "{:?}",
        outcome.found.environment
    );
    assert!(told("setting.rt_runtime_us").starts_with("900000"));
    assert_eq!((told("vm.mode"), told("vm.vcpus")), ("real-time", "2"));
    assert!(visit.log.contains("Linux version") && visit.log.contains("nosmt=force"));
}

fn a_run_from_rest_depends_on_its_seed_and_on_nothing_before(guest: &Guest) {
    let deterministic = Guest { mode: Mode::Deterministic, ..guest.clone() };
    let machine = Machine::load("smp-2").unwrap();
    let spec = |name: &str, given: &[(&str, u64)]| {
        Spec::bench(name, &Params(given.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect())).unwrap()
    };
    let storm = spec("nanosleep", &[("tasks", 4), ("runtime", 20_000_000)]);
    let messages = spec("hackbench", &[("groups", 1), ("fds", 2), ("loops", 4)]);
    let made = |rests: &AtRest, spec: &Spec, seed: u64| {
        let request = Request { spec: spec.clone(), seed, ..request(Variant::plain(RUNNING)) };
        let visit = run(rests, &deterministic, &machine, &request, false, &AtomicBool::new(false));
        visit.unwrap().expect("nobody stopped it").outcome
    };
    let (alone, beside) = (AtRest::new(), AtRest::new());
    let want = made(&alone, &storm, 2);
    made(&beside, &messages, 1);
    let other = made(&beside, &storm, 1);
    // After two other runs, and in a guest that was booted separately.
    assert!(made(&beside, &storm, 2) == want, "a run shows what ran before it");
    assert!(other.found != want.found, "two seeds give one run");
}

fn a_command_is_taken_along(guest: &Guest) {
    let argv = ["sleep", "0.2"].map(str::to_owned).to_vec();
    let spec = Spec::Command(Box::new(CommandSpec::new("sleep", argv)));
    let visit = go(guest, &Request { spec, ..request(Variant::plain(RUNNING)) }).unwrap();
    let elapsed = visit.outcome.found.counters["command.elapsed"];
    assert!((200_000_000..30_000_000_000).contains(&elapsed), "{elapsed} ns");
}

fn pairs_over_tcp_and_udp_are_made(guest: &Guest) {
    for (benchmark, udp) in [("rr", Some(0)), ("rr", Some(1)), ("stream-rr", None)] {
        let protocol = udp.map(|udp| ("protocol".to_owned(), udp));
        let given = protocol.into_iter().chain([("runtime".to_owned(), 1_000_000_000)]).collect();
        let spec = Spec::bench(benchmark, &Params(given)).unwrap();
        let visit = go(guest, &Request { spec, ..request(Variant::plain(RUNNING)) }).unwrap();
        let answered = visit.outcome.found.series[&format!("{benchmark}.latency")].count();
        assert!(answered > 10, "{benchmark} {udp:?}: {answered} answers");
    }
}

fn a_refusal_comes_back_unchanged(guest: &Guest) {
    let mut variant = Variant::plain(RUNNING);
    variant.features = vec!["NO_SUCH_FEATURE_AT_ALL".to_owned()];
    let e = go(guest, &request(variant)).unwrap_err();
    assert!(e.to_string().contains("SUCH_FEATURE_AT_ALL"), "{e}");
}

fn a_kernel_that_can_not_start_init_is_recognised(guest: &Guest) {
    let other =
        Guest { boot_options: vec!["rdinit=/dev/null".into(), "init=/dev/null".into()], ..guest.clone() };
    let e = go(&other, &request(Variant::plain(RUNNING))).unwrap_err().to_string();
    assert!(e.contains("the guest died: ") && e.contains("  | ["), "{e}");
}

fn files_that_are_not_kernels_are_reported(guest: &Guest) {
    let mut other = guest.clone();
    other.image.path = "/etc/passwd".into();
    let e = go(&other, &request(Variant::plain(RUNNING))).unwrap_err().to_string();
    assert!(e.contains("QEMU could not run the guest"), "{e}");
}
