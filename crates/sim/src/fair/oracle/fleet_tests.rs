//! Decisions that trees' own code has shown to be otherwise than our rules had them: the smallest states.

use super::*;
use schedlab_base::Version;
use schedlab_board::decision::{AskedAverages, AskedCpu, AskedGroup, AskedLevel, AskedPlace, AskedTask};
use schedlab_kernel::{Feature, Policy};
use schedlab_trace::{BalanceTrigger, MigrationType};

const CPUS: usize = 8;

fn task(cpu: u32, place: AskedPlace, load: u64) -> AskedTask {
    AskedTask {
        place,
        cpu: CpuId(cpu),
        avg: AskedAverages { load, ..AskedAverages::default() },
        ran_ago_ns: 20_000_000,
        allowed: 0xff,
        policy: Policy::Other,
        nice: 0,
        flips: 0,
        recent: CpuId(cpu),
        next: false,
        vruntime: 0,
    }
}

/// Queues have what their tasks have.
fn state(tasks: Vec<AskedTask>, trigger: BalanceTrigger) -> AskedFleet {
    let mut cpus = vec![AskedCpu { avg_idle_ns: 1_000_000, nr_idle_scan: 8, ..AskedCpu::default() }; CPUS];
    for t in &tasks {
        let avg = &mut cpus[t.cpu.index()].avg;
        avg.load += t.avg.load;
        avg.util += t.avg.util;
        avg.util_est += t.avg.util_est;
    }
    AskedFleet {
        cpus,
        tasks,
        levels: vec![AskedLevel::default()],
        group: AskedGroup::default(),
        cpu: CpuId(6),
        src: CpuId(7),
        level: 0,
        about: 0,
        trigger,
        sync: false,
        overload: true,
        migration: MigrationType::Load,
        imbalance: 0,
    }
}

fn ask(version: (u16, u16), off: &[Feature], s: &AskedFleet, question: FleetQuestion) -> FleetAnswer {
    let machine = timeless(&Machine::load("smp-8").unwrap()).unwrap();
    let mut kernel = Kernel::of(Version::new(version.0, version.1));
    off.iter().for_each(|f| kernel.features.switch(*f, false));
    answer(&machine, &kernel, s, question).0
}

#[test]
fn before_6_0_a_newidle_pass_does_not_give_up_because_a_wakeup_is_on_its_way() {
    let tasks =
        vec![task(1, AskedPlace::Runs, 0), task(1, AskedPlace::Waits, 0), task(6, AskedPlace::Leaves, 0)];
    let mut s = state(tasks, BalanceTrigger::Newidle);
    s.cpus[6].wakeup_pending = true;
    let came = |version| ask(version, &[], &s, FleetQuestion::Newidle);
    assert_eq!(came((5, 10)), FleetAnswer::Searched { levels: vec![0], came: vec![1] });
    assert_eq!(came((6, 1)), FleetAnswer::Searched { levels: vec![], came: vec![] });
}

#[test]
fn the_load_of_a_root_task_is_its_part_of_the_queue_at_the_first_look() {
    // The second task is 53 of the 53 that are left of 2101: taken for 2062, it is more than the 1033 to move.
    let tasks =
        vec![task(7, AskedPlace::Waits, 2048), task(7, AskedPlace::Waits, 53), task(6, AskedPlace::Runs, 0)];
    let mut s = state(tasks, BalanceTrigger::Busy);
    s.imbalance = 3081;
    for version in [(5, 10), (6, 1), (6, 12), (7, 3)] {
        assert_eq!(ask(version, &[], &s, FleetQuestion::Detach), FleetAnswer::Moved(vec![0]), "{version:?}");
    }
    assert_eq!(ask((5, 5), &[], &s, FleetQuestion::Detach), FleetAnswer::Moved(vec![0, 1]));
}

#[test]
fn estimates_do_not_count_where_the_feature_is_off() {
    let est = |util_est| AskedTask {
        avg: AskedAverages { util_est, ..AskedAverages::default() },
        ..task(7, AskedPlace::Waits, 0)
    };
    let s = state(vec![est(768), est(192)], BalanceTrigger::Busy);
    let of = |off: &[Feature]| ask((6, 1), off, &s, FleetQuestion::Busiest);
    assert_eq!(of(&[]), FleetAnswer::Group(Some((CpuId(7), MigrationType::Task, 1))));
    assert_eq!(of(&[Feature::UtilEst]), FleetAnswer::Group(None));
}

#[test]
fn what_is_written_is_what_is_asked_about() {
    let mut s =
        state(vec![task(3, AskedPlace::Absent, 0), task(3, AskedPlace::Runs, 1024)], BalanceTrigger::Idle);
    s.cpu = CpuId(5);
    assert_eq!(ask((6, 1), &[], &s, FleetQuestion::Select), FleetAnswer::At(CpuId(5)), "the idle waker's");
    s.tasks[0].allowed = 0b1010;
    assert_eq!(
        ask((6, 1), &[], &s, FleetQuestion::Select),
        FleetAnswer::At(CpuId(1)),
        "the only idle one it may use"
    );
}

#[test]
fn since_6_0_the_only_task_of_a_cpu_that_others_use_is_to_move_as_a_load() {
    let mut s = state(vec![task(7, AskedPlace::Runs, 300)], BalanceTrigger::Idle);
    s.cpus[7].rt_util = 512;
    let of = |version, trigger| {
        let s = AskedFleet { trigger, ..s.clone() };
        ask(version, &[], &s, FleetQuestion::Busiest)
    };
    for version in [(6, 1), (6, 12), (7, 3)] {
        let moves = FleetAnswer::Group(Some((CpuId(7), MigrationType::Load, 300)));
        assert_eq!(of(version, BalanceTrigger::Idle), moves, "{version:?}");
    }
    assert_eq!(of((5, 10), BalanceTrigger::Idle), FleetAnswer::Group(None));
    s.cpus[7].rt_util = 100;
    assert_eq!(ask((6, 1), &[], &s, FleetQuestion::Busiest), FleetAnswer::Group(None), "within 117 %");
}

#[test]
fn a_new_task_goes_to_the_only_cpu_of_a_group_whatever_is_known_of_its_sleep() {
    let s = AskedFleet {
        cpu: CpuId(3),
        ..state(vec![task(3, AskedPlace::Absent, 0), task(3, AskedPlace::Waits, 0)], BalanceTrigger::Idle)
    };
    assert_eq!(ask((6, 12), &[], &s, FleetQuestion::Fork), FleetAnswer::At(CpuId(4)));
    let exec = AskedFleet { tasks: vec![task(3, AskedPlace::Runs, 0), task(3, AskedPlace::Waits, 0)], ..s };
    assert_eq!(ask((6, 12), &[], &exec, FleetQuestion::Exec), FleetAnswer::At(CpuId(4)));
}
