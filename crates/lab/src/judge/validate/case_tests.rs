//! Cases: required keys, and the places of errors.

use super::*;
use schedlab_compare::agreement::rows::Class;

const CASE: &str = r#"
name = "mine"
about = "spinning"
backend = "host"
machine = "host"
runs = 3

[kernel]
simulated = "v6.18"
features = ["NO_RUN_TO_PARITY"]
built = { hz = 1000 }

[workload]
name = "slice"
tasks = "{cpus*3}"
runtime = "1s"

[tolerance]
totals = 2
switches = 25
migrations = 25
slices = 20
delays = 35
placement = 25
balance = 35
spread = 50
distributions = 12.5
"#;

fn read(text: &str) -> Result<Case> {
    parse(Path::new("mine.toml"), text)
}

/// The error of the case with one part of its text replaced.
fn wrong(from: &str, to: &str) -> String {
    assert!(CASE.contains(from), "{from}");
    read(&CASE.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn a_case_has_everything_for_both_sides() {
    let case = read(CASE).unwrap();
    assert_eq!((case.real, case.image.as_str(), case.runs, case.seed), (Real::Host, "running", 3, 1));
    assert_eq!(case.tolerance.of(Class::Distributions), 12.5);
    let (simulated, real) = (case.variant_simulated("v6.18", |_| {}), case.variant_real().unwrap());
    assert_eq!((simulated.kernel.as_str(), real.kernel.as_str()), ("v6.18", "running"));
    assert_eq!((&simulated.features, simulated.tunables["hz"]), (&real.features, 1000));
    assert!(real.tunables.is_empty(), "what is built in is not set again");
    let tasks = |cpus| case.workload(cpus).unwrap().build(1).unwrap().tasks.len();
    assert_eq!(tasks(4) - tasks(2), 6);
}

#[test]
fn a_scheduler_is_for_guests_of_kernels_that_have_sched_ext() {
    let guest = CASE.replace("\"host\"\nmachine = \"host\"", "\"vm\"\nmachine = \"8cpu\"");
    let under = |kernel: &str| {
        let text = guest.replace("features = [\"NO_RUN_TO_PARITY\"]", "scx = \"./no-such -f\"");
        let text = text
            .replace("simulated = \"v6.18\"", &format!("simulated = \"v{kernel}\"\nimage = \"{kernel}\""));
        read(&text)
    };
    let case = under("6.18").unwrap();
    assert!(case.variant_real().unwrap_err().to_string().contains("no-such"));
    assert_eq!(case.variant_simulated("v6.18", |_| {}).scx, None, "our rules have none");
    assert!(under("6.1").unwrap_err().to_string().contains("kernels from v6.12 on"));
    let host = wrong("features = [\"NO_RUN_TO_PARITY\"]", "scx = \"scx_simple\"");
    assert!(host.contains("on the host"), "{host}");
}

#[test]
fn a_guest_has_a_mode_and_an_image() {
    let guest = CASE.replace("\"host\"\nmachine = \"host\"", "\"vm\"\nmachine = \"8cpu\"");
    assert!(read(&guest).unwrap_err().to_string().contains("no image"));
    let guest = guest.replace("[kernel]", "[kernel]\nimage = \"6.18\"");
    let case = read(&guest).unwrap();
    assert_eq!((case.real, case.image.as_str()), (Real::Vm(Mode::Deterministic), "6.18"));
    let odd = read(&guest.replace("runs = 3", "mode = \"determined\"")).unwrap_err().to_string();
    assert!(odd.contains("mine.toml:6") && odd.contains("'deterministic'"), "{odd}");
}

#[test]
fn an_image_is_of_the_series_that_is_simulated() {
    let guest = CASE.replace("\"host\"\nmachine = \"host\"", "\"vm\"\nmachine = \"8cpu\"");
    let of = |image: &str| read(&guest.replace("[kernel]", &format!("[kernel]\nimage = \"{image}\"")));
    let other = of("6.1").unwrap_err().to_string();
    assert!(other.contains("mine.toml:9") && other.contains("of v6.1, but v6.18 is simulated"), "{other}");
    assert!(other.contains("image = \"6.18\""), "{other}");
    // Their versions are known once they are opened.
    let case = of("6").unwrap();
    assert!(of("/boot/vmlinuz").is_ok());
    assert!(case.is_of_series(Version::new(6, 18)).is_ok() && case.is_of_series(Version::new(6, 1)).is_err());
}

#[test]
fn a_missing_tolerance_is_an_error_that_names_the_usual_one() {
    let missing = wrong("delays = 35\n", "");
    assert!(missing.contains("mine.toml") && missing.contains("no delays"), "{missing}");
    assert!(missing.contains("delays = 35"), "{missing}");
    assert!(wrong("delays = 35", "delays = 350").contains("0 to 100"));
    assert!(wrong("delays = 35", "delays = \"some\"").contains("delays is 0 to 100"));
    assert!(wrong("delays = 35", "delay = 35").contains("'delays'"), "the nearest name");
}

#[test]
fn misspelt_words_are_reported_with_their_place() {
    for (from, to, place, words) in [
        ("runs = 3", "rnus = 3", "mine.toml:6", "'runs'"),
        ("runs = 3", "runs = 0", "mine.toml:6", "runs is 1 to"),
        ("\"v6.18\"", "\"v6.19\"", "mine.toml:9", "no simulated kernel"),
        ("\"NO_RUN_TO_PARITY\"", "\"NO_RUN_TO_PARTY\"", "mine.toml:10", "'RUN_TO_PARITY'"),
        ("hz = 1000", "hzz = 1000", "mine.toml:11", "'hz'"),
        ("\"slice\"", "\"slices\"", "mine.toml:14", "'slice'"),
        ("tasks = \"{cpus*3}\"", "tasks = { sweep = [1, 2] }", "mine.toml:13", "no sweep"),
        ("machine = \"host\"", "machine = \"8cpu\"", "mine.toml:5", "on this host"),
        ("name = \"mine\"\n", "", "mine.toml", "no name"),
    ] {
        let e = wrong(from, to);
        assert!(e.contains(place) && e.contains(words), "{from}: {e}");
    }
}

#[test]
fn changes_override_known_values_and_those_override_built_ones() {
    let built = "built = { hz = 250, migration_cost_ns = 7 }\ntunables = { base_slice_ns = 1_000_000 }";
    let text = CASE.replace("built = { hz = 1000 }", built);
    let variant = read(&text).unwrap().variant_simulated("v6.18", |known| {
        known.tunables.extend([("base_slice_ns".to_owned(), 2_000_000), ("hz".to_owned(), 1000)]);
    });
    let told = ["base_slice_ns", "hz", "migration_cost_ns"].map(|name| variant.tunables[name]);
    assert_eq!(told, [1_000_000, 1000, 7]);
}

#[test]
fn only_a_guests_kernel_has_tunables_in_folders_and_our_rules_have_none_of_them() {
    let asked =
        "features = [\"NO_RUN_TO_PARITY\"]\ntunables = { \"llc_balancing/enabled\" = 1, nr_migrate = 8 }";
    let text = CASE.replace("features = [\"NO_RUN_TO_PARITY\"]", asked);
    assert!(read(&text).unwrap_err().to_string().contains("'llc_balancing/enabled'"));
    let guest = text.replace("\"host\"\nmachine = \"host\"", "\"vm\"\nmachine = \"8cpu\"");
    let guest = guest.replace("[kernel]", "[kernel]\nimage = \"6.18\"");
    let case = read(&guest).unwrap();
    assert_eq!(case.variant_real().unwrap().tunables.len(), 2);
    let simulated = case.variant_simulated("v6.18", |_| {});
    assert_eq!(simulated.tunables.keys().collect::<Vec<_>>(), ["hz", "nr_migrate"]);
    assert!(
        read(&guest.replace("nr_migrate", "nr_migrat")).unwrap_err().to_string().contains("'nr_migrate'")
    );
}

#[test]
fn a_control_states_its_fault() {
    let with = |text: &str| read(&format!("{CASE}\n[control]\n{text}"));
    let case = with("why = \"slow\"\nsimulated = \"v6.1\"\ntunables = { hz = 100 }").unwrap();
    let (simulated, real) = (case.variant_simulated("v6.18", |_| {}), case.variant_real().unwrap());
    assert_eq!((simulated.kernel.as_str(), simulated.tunables["hz"]), ("v6.1", 100));
    assert!(real.tunables.is_empty());
    assert!(with("why = \"none\"").unwrap_err().to_string().contains("nothing is wrong"));
    assert!(with("machine = \"8cpu\"").unwrap_err().to_string().contains("no why"));
}
