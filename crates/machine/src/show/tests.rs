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
    insta::assert_snapshot!(before_costs(&shown("spr-2x56", "v6.5", 8)), @r"
        spr-2x56: 2-socket Sapphire Rapids, 2 x 56 cores x 2 threads, 224 CPUs (D001)
          D001 states sockets, cores and threads; numbering as Intel servers have it
            (cpu8 and cpu120 are siblings); distance usual for 2-socket Xeon

        topology
          224 CPUs, 112 cores
          package 0: 0-55,112-167
          package 1: 56-111,168-223
          node 0: 0-55,112-167
          node 1: 56-111,168-223
          LLC 0: 0-55,112-167
          LLC 1: 56-111,168-223
          core 0-111: CPUs 0,112 then 1,113 and so on, up to 111,223

        node distances
          node 0: 10 21
          node 1: 21 10

        domains under v6.5
          domains of one shape on all CPUs; LLC is domain1
          domain0 SMT     2 CPUs, 2 groups of 1 CPU
              interval 2 to 4 ms, first 2; busy_factor 16; imbalance_pct 110;
                cache_nice_tries 0; imb_numa_nr 0
              BALANCE_NEWIDLE BALANCE_EXEC BALANCE_FORK WAKE_AFFINE SHARE_CPUCAPACITY
                SHARE_LLC PREFER_SIBLING
          domain1 MC    112 CPUs, 56 groups of 2 CPUs
              interval 112 to 224 ms, first 112; busy_factor 16; imbalance_pct 117;
                cache_nice_tries 1; imb_numa_nr 0
              BALANCE_NEWIDLE BALANCE_EXEC BALANCE_FORK WAKE_AFFINE SHARE_LLC
                PREFER_SIBLING
          domain2 NUMA  224 CPUs, 2 groups of 112 CPUs, distance to 21
              interval 224 to 448 ms, first 224; busy_factor 16; imbalance_pct 117;
                cache_nice_tries 2; imb_numa_nr 14
              BALANCE_NEWIDLE BALANCE_EXEC BALANCE_FORK WAKE_AFFINE SERIALIZE NUMA

        groups of cpu8, in the order it visits them
          domain0 SMT
            {8} {120}
          domain1 MC
            {8,120} {9,121} {10,122} {11,123} {12,124} {13,125} {14,126} {15,127}
              {16,128} {17,129} {18,130} {19,131} {20,132} {21,133} {22,134} {23,135}
              {24,136} {25,137} {26,138} {27,139} {28,140} {29,141} {30,142} {31,143}
              {32,144} {33,145} {34,146} {35,147} {36,148} {37,149} {38,150} {39,151}
              {40,152} {41,153} {42,154} {43,155} {44,156} {45,157} {46,158} {47,159}
              {48,160} {49,161} {50,162} {51,163} {52,164} {53,165} {54,166} {55,167}
              {0,112} {1,113} {2,114} {3,115} {4,116} {5,117} {6,118} {7,119}
          domain2 NUMA
            {0-55,112-167} {56-111,168-223}
        ");
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
