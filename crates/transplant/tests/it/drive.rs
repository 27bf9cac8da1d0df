//! Tasks on a booted image.

use crate::again::{machine, works};
use crate::engine::{Engine, Program};
use schedlab_transplant::abi::kind;

const MS: u64 = 1_000_000;

#[test]
fn a_sleeper_preempts_a_hog() {
    let said = works("drive::a_sleeper_preempts_a_hog", Vec::new(), |image| {
        let mut engine = Engine::new(image, machine(1, 4, 2));
        let first: &'static [u64] = &[1];
        let hog = engine.start(&Engine::fair("hog", Some(first)), Program { run: 10 * MS, sleep: 0 }, 0);
        let sleeper =
            engine.start(&Engine::fair("sleeper", Some(first)), Program { run: 300_000, sleep: 5 * MS }, 0);
        engine.run(1000 * MS);
        let (hog, sleeper) = (engine.image.usage(hog), engine.image.usage(sleeper));
        let switches = engine.notes.iter().filter(|n| n.kind == kind::SWITCH && n.cpu == 0).count();
        println!("= {} {} {switches} {}", hog.runtime_ns, sleeper.runtime_ns, hog.nivcsw);
    });
    let Some(said) = said else { return };
    let figures: Vec<u64> = said[0].split(' ').map(|w| w.parse().unwrap()).collect();
    let [hog, sleeper, switches, preempted] = figures[..] else { panic!("{said:?}") };
    assert!(hog + sleeper <= 1_000_000_000 && hog + sleeper > 999_000_000, "{said:?}");
    assert!((50_000_000..60_000_000).contains(&sleeper), "{said:?}");
    assert!(switches >= 2 * preempted && preempted > 150, "{said:?}");
}
