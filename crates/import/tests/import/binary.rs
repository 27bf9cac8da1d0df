//! Files in binary forms, put together by hand, give the same as text; damage does no harm.

use crate::made::{found, perf_data, perfetto, sections, text, trace_dat};
use proptest::prelude::*;
use schedlab_base::testing::skipped;
use schedlab_import::Losses;

/// The story in each binary form.
fn forms() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("trace.dat 6", trace_dat()),
        ("trace.dat 7", sections::trace_dat(b"none")),
        ("trace.dat 7 by zlib", sections::trace_dat(b"zlib")),
        ("trace.dat 7 by zstd", sections::trace_dat(b"zstd")),
        ("perf.data", perf_data(None)),
        ("Perfetto", perfetto::verbose()),
        ("Perfetto, packed", perfetto::packed()),
        ("Perfetto in columns", perfetto::columns()),
    ]
}

/// Writes the samples to a folder, as seeds for fuzzing.
#[test]
fn samples_can_be_had() {
    let Some(folder) = std::env::var_os("SCHEDLAB_SAMPLES") else { return skipped("SCHEDLAB_SAMPLES") };
    std::fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in forms() {
        std::fs::write(std::path::Path::new(&folder).join(name), bytes).unwrap();
    }
}

#[test]
fn all_forms_give_the_same_events() {
    let (want, of_text) = found(&text()).unwrap();
    assert_eq!(want.counters["run_delay.total"], 30_000 + 70_000, "a's wakeup, and b after its preemption");
    for (name, bytes) in forms() {
        let (got, imported) = found(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(got, want, "{name}");
        assert_eq!((imported.records, imported.others, imported.losses), (7, 1, Losses::default()), "{name}");
        assert_eq!(imported.cast.end, of_text.cast.end, "{name}");
    }
    let (_, imported) = found(&perf_data(None)).unwrap();
    let people: Vec<_> = imported.cast.tasks.iter().map(|t| (t.name.as_str(), t.tid, t.process)).collect();
    assert_eq!(people, [("a", 10, 10), ("b c", 20, 10), ("x", 30, 30)]);
    assert_eq!(imported.cast.release, "6.1.192");
}

#[test]
fn lost_records_of_perf_end_the_stays_they_fall_into() {
    // The missing record is that before b's switch away: only its stay of 200 us is unknown.
    let (got, imported) = found(&perf_data(Some(4))).unwrap();
    assert_eq!((imported.losses.events, imported.losses.places), (5, 1));
    let stays: Vec<u64> = got.series["slice"].values().map(|(ns, _)| ns).collect();
    assert_eq!(stays.len(), 3, "{stays:?}");
    assert!(stays.iter().all(|ns| *ns < 150_000), "{stays:?}");
}

#[test]
fn files_of_another_byte_order_or_compressed_ones_are_refused_with_a_remedy() {
    let mut swapped = perf_data(None);
    swapped[..8].reverse();
    assert!(found(&swapped).unwrap_err().contains("byte order"));
    let mut swapped = trace_dat();
    swapped[12] ^= 1;
    assert!(found(&swapped).unwrap_err().contains("byte order"));
    let mut compressed = perf_data(None);
    compressed[192] = 81;
    assert!(found(&compressed).unwrap_err().contains("perf script"), "the first record is of that type");
}

#[test]
fn every_beginning_of_a_file_is_read_or_refused() {
    for (_, bytes) in forms() {
        for end in (0..bytes.len()).step_by(7) {
            let _ = found(&bytes[..end]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn damaged_files_are_read_or_refused(
        form in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..16),
    ) {
        let mut bytes = form.get(&forms()).1.clone();
        let n = bytes.len();
        for (at, byte) in damage {
            bytes[at % n] = byte;
        }
        let _ = found(&bytes);
    }
}

/// Reads the real recordings in the folder `SCHEDLAB_RECORDINGS`; those with the same stem must agree.
/// docs/recordings.md says how they are made.
#[test]
fn real_recordings_of_one_stem_agree() {
    let Some(folder) = std::env::var_os("SCHEDLAB_RECORDINGS") else { return skipped("SCHEDLAB_RECORDINGS") };
    let mut by_stem = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).unwrap();
        let (told, imported) = found(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        println!("{name}: {} records, {} others, {:?}", imported.records, imported.others, imported.losses);
        let first = by_stem.entry(name.split('.').next().unwrap().to_owned()).or_insert(told.clone());
        assert_eq!((&first.tasks, &first.counters), (&told.tasks, &told.counters), "{name}");
    }
}

#[test]
fn states_are_read_as_in_the_recorded_kernel() {
    for (release, preempted, dead) in [
        ("6.1.0", 0x100, 0x10),
        ("4.9.0", 0x1000, 0x40),
        ("3.10.0", 0x400, 0x40),
        ("2.6.35", 0x200, 0x40),
        // schedlab's own traces always have the layout of the newer kernel.
        ("4.14.0-for-2.6.35", 0x100, 0x10),
    ] {
        let (found, imported) = found(&perfetto::states(release, preempted, dead)).unwrap();
        let ends = ["preempted", "exited", "blocked"].map(|why| found.counters[&format!("slice.end.{why}")]);
        assert_eq!(ends, [1, 1, 1], "{release}");
        assert_eq!(imported.cast.release, release.trim_start_matches("4.14.0-for-"), "{release}");
    }
}

#[test]
fn after_a_loss_in_columns_the_running_task_is_unknown() {
    let (found, imported) = found(&perfetto::lost_in_columns()).unwrap();
    let names: Vec<u32> = imported.cast.tasks.iter().map(|t| t.tid).collect();
    assert_eq!((names, imported.losses.places), (vec![10, 11, 12], 1));
    // Known stays: the first of thread 10, and those of 11 and 12; not the second of thread 10, which the loss ended.
    let stays: u64 = found.series["slice"].values().map(|(_, n)| n).sum();
    assert_eq!(stays, 3);
}

#[test]
fn a_bundle_of_endless_columns_is_refused() {
    let (_, whole) = found(&perfetto::long_columns(90_000)).unwrap();
    assert_eq!(whole.losses.unreadable, 0);
    let (_, refused) = found(&perfetto::long_columns(110_000)).unwrap();
    assert_eq!((refused.losses.unreadable, refused.records), (1, 7));
}

#[test]
fn many_losses_take_no_longer_than_as_many_records() {
    let began = std::time::Instant::now();
    let (_, imported) = found(&perfetto::losses(90_000)).unwrap();
    assert_eq!((imported.records, imported.losses.places), (90_000, 90_000));
    // Walking along all records for each loss would take eight billion steps.
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}
