use super::*;

fn shown(machine: &str, kernel: &str, cpu: u32) -> String {
    let machine = Machine::load(machine).unwrap();
    show(&machine, Version::parse(kernel).unwrap(), Some(CpuId(cpu)))
}

/// The text before the costs, which have their own test.
fn before_costs(text: &str) -> &str {
    text.split_once("\ncosts").unwrap().0
}

#[test]
fn the_machine_of_d001_can_be_checked_by_eye() {
    let text = shown("spr-2x56", "v6.5", 8);
    assert_eq!(before_costs(&text), include_str!("spr-2x56.txt"));
}

#[test]
fn different_cpus_are_shown_separately() {
    let text = "name='m'\nabout='a line of nodes'\n[topology]\npackages=3\ncores=6\n\
                distances=[[10,20,40],[20,10,20],[40,20,10]]";
    let machine = crate::file::parse(std::path::Path::new("m"), text).unwrap();
    let text = show(&machine, Version::new(6, 5), None);
    assert!(
        text.contains("CPUs 0-1,4-5; LLC is domain0") && text.contains("CPUs 2-3; LLC is domain0"),
        "{text}"
    );
    assert!(text.contains("distance to 40"), "{text}");
}

#[test]
fn costs_idle_states_and_background_name_their_sources() {
    let text = shown("spr-2x56", "v6.5", 0);
    let costs = text.split_once("\ncosts").unwrap().1;
    for row in Costs::TABLE {
        assert!(costs.contains(row.name), "{}", row.name);
    }
    assert!(costs.contains("visit_miss_near_ns         59  20..193      visit_hit_ns"), "{costs}");
    let d001 = shown("spr-2x56-d001", "v6.5", 0);
    assert!(d001.contains("visit_miss_near_ns         90  65..125      D001:"), "{d001}");
    assert!(costs.contains("C1E           2us    2us    4us  intel_idle"), "{costs}");
    assert!(costs.contains("kworker      per CPU      1s    15us  estimate"), "{costs}");
}

#[test]
fn no_line_is_too_long_and_the_value_form_holds_the_same() {
    for (name, _) in Machine::presets() {
        let name = name.replace("-NxLxC", "-4x8x16").replace("-N", "-1024");
        let text = shown(&name, "v6.12", 1);
        let long = text.lines().find(|l| l.chars().count() > 78);
        assert_eq!(long, None, "{name}");
    }
    let machine = Machine::load("p4-ht-2").unwrap();
    let json = serde_json::to_value(Shown::new(&machine, Version::new(6, 7))).unwrap();
    assert_eq!(json["domains"]["of_cpu"][0][1]["name"], "PKG");
    assert_eq!(json["domains"]["groups"][1]["span"], "2");
    let back: Machine = serde_json::from_value(json["machine"].clone()).unwrap();
    assert_eq!(back, machine);
}
