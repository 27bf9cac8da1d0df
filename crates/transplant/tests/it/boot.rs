//! The boot: machines of all sizes, their domains, tables and errors.

use crate::again::{machine, works};
use std::time::Instant;

#[test]
fn machines_boot_in_under_a_second() {
    for (test, nodes, cores, threads) in [("8", 1, 4, 2), ("224", 2, 56, 2), ("1024", 8, 64, 2)] {
        if std::env::var("SCHEDLAB_TEST_SIZE").is_ok_and(|size| size != test) {
            continue;
        }
        // SAFETY: this test alone reads the variable, and its process has no other threads that do.
        unsafe { std::env::set_var("SCHEDLAB_TEST_SIZE", test) };
        let Some(said) = works("boot::machines_boot_in_under_a_second", Vec::new(), |mut image| {
            let began = Instant::now();
            image.boot(machine(nodes, cores, threads)).unwrap();
            println!("= {}", began.elapsed().as_millis());
            image.domains(0).lines().for_each(|l| println!("= {l}"));
        }) else {
            continue;
        };
        eprintln!("{test}: {said:?}");
        assert!(said[0].parse::<u32>().unwrap() < 1000, "{said:?}");
        // SAFETY: as above.
        unsafe { std::env::remove_var("SCHEDLAB_TEST_SIZE") };
    }
}
