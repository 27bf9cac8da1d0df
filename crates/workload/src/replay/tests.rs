use super::*;
use crate::{Op, Spec, rig};
use proptest::prelude::*;

const PING: &str = "schedlab-schedule 1 20000000
task start=0 nice=0 rt=0 background=0 tid=812 group=- name=message thread
r52000 w1 a
task start=0 nice=5 rt=0 background=0 tid=813 group=/b name=worker
a r1200 w0 s30000
";

fn error(text: &str) -> String {
    let e = Schedule::read("x.sched", text).unwrap_err();
    e.to_string()
}

#[test]
fn a_text_is_read_and_written_back() {
    let read = Schedule::read("x.sched", PING).unwrap();
    assert_eq!(read.text(), PING);
    assert_eq!((read.work(), read.counts()), (Ns(53_200), (2, 3)));
    assert_eq!(read.parts[1].steps[3], Step::Sleep(Ns(30_000)));
}

#[test]
fn errors_have_their_line() {
    assert!(error("hello").contains("no schedule"));
    assert!(
        error(&PING.replace("a r1200", "a x1200")).contains("x.sched:5:1"),
        "{}",
        error(&PING.replace("a r1200", "a x1200"))
    );
    assert!(error(&PING.replace("w1", "w7")).contains("wakes task 7"));
    assert!(error(&PING.replace("nice=5", "nice=50")).contains("nice is -20 to 19"));
    let unborn = PING.replace("task start=0 nice=5", "task start=by:0 nice=5");
    assert!(error(&unborn).contains("not started exactly once"));
    assert!(Schedule::read("x", &unborn.replace("r52000", "f1 r52000")).is_ok());
}

/// The worker's bursts in a whole run.
fn bursts(prices: Prices) -> Vec<Ns> {
    let built = Spec::replay("x", PING.to_owned(), prices).unwrap().build(1).unwrap();
    let log = rig::run(built, rig::Costs { op: Ns(10), wakeup: Ns(50), slack: Ns::ZERO });
    assert!(log.stuck.is_empty(), "every sleep ends");
    let of = |s: &rig::Step| match s.op {
        Op::Run { work } if s.task == TaskId(1) => Some(work),
        _ => None,
    };
    log.steps.iter().filter_map(of).collect()
}

#[test]
fn prices_are_taken_off_the_bursts_that_follow() {
    assert_eq!(bursts(Prices::default()), [Ns(1_200)]);
    assert_eq!(bursts(Prices { wake_ns: 0, sleep_ns: 200 }), [Ns(1_000)], "of the sleep before it");
    assert!(bursts(Prices { wake_ns: 0, sleep_ns: 5_000 }).is_empty(), "a larger debt is carried on");
    let paid = |wake_ns, sleep_ns| {
        let steps =
            Schedule::read("x", PING).unwrap().paid(Prices { wake_ns, sleep_ns }).parts.remove(1).steps;
        steps.into_iter().filter(|step| matches!(step, Step::Run(_))).collect::<Vec<_>>()
    };
    assert_eq!((paid(0, 200), paid(7, 5_000)), (vec![Step::Run(Ns(1_000))], vec![Step::Run(Ns::ZERO)]));
}

#[test]
fn a_token_is_used_once_and_waited_for() {
    // The reader needs three tokens. The writer wakes it once, and gives the other tokens before and after.
    let text = "schedlab-schedule 1 20000
task start=0 nice=0 rt=0 background=0 tid=1 group=- name=writer
r1000 w1 g1 r5000 g1 r100
task start=0 nice=0 rt=0 background=0 tid=2 group=- name=reader
a r10 n r20 n r30
";
    let read = Schedule::read("x", text).unwrap();
    assert_eq!((read.text(), read.counts()), (text.to_owned(), (1, 1)), "what is inferred is not counted");
    let built =
        Spec::replay("x", text.to_owned(), Prices { wake_ns: 5, sleep_ns: 5 }).unwrap().build(1).unwrap();
    let log = rig::run(built, rig::Costs { op: Ns(10), wakeup: Ns(50), slack: Ns::ZERO });
    assert!(log.stuck.is_empty());
    let runs: Vec<(Ns, Ns)> = log
        .steps
        .iter()
        .filter_map(|s| match s.op {
            Op::Run { work } if s.task == TaskId(1) => Some((work, s.at)),
            _ => None,
        })
        .collect();
    assert_eq!(
        runs.iter().map(|(work, _)| work.0).collect::<Vec<_>>(),
        [5, 20, 30],
        "one price, of the sleep"
    );
    assert!(runs[1].1 < Ns(2_000) && runs[2].1 > Ns(6_000), "{runs:?}");
    let waits = log.steps.iter().filter(|s| matches!(s.op, Op::Wait { .. })).count();
    let wakes = log.steps.iter().filter(|s| matches!(s.op, Op::Wake { .. })).count();
    assert_eq!((waits, wakes), (2, 2), "no call where nobody waits");
    let unfit = text.replace("g1 r100", "g7 r100");
    assert!(Schedule::read("x", &unfit).unwrap_err().to_string().contains("wakes task 7"));
}

#[test]
fn an_rtapp_file_has_the_bursts_and_the_wakers() {
    let text = rtapp(&Schedule::read("x", PING).unwrap());
    let spec = Spec::RtApp { file: "x.json".into(), text: text.clone(), runtime: None };
    let built = spec.build(1).unwrap();
    assert_eq!(built.tasks.len(), 2);
    assert!(text.contains("\"run0\": 52") && text.contains("\"resume1\": \"worker-1\""), "{text}");
}

proptest! {
    #[test]
    fn random_text_never_panics(text in "(schedlab-schedule 1 [0-9]{1,5}\n)?(task start=(by:)?[0-9] nice=[0-9] rt=0 background=0 tid=1 group=- name=x\n|[arwsfgn][0-9]{0,3} |\n){0,12}") {
        if let Ok(read) = Schedule::read("x", &text) {
            prop_assert_eq!(Schedule::read("x", &read.text()).unwrap(), read);
        }
    }
}
