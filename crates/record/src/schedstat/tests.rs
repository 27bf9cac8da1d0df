//! Fields and rows, files read and printed, foreign files refused, differences.

use super::*;

#[test]
fn counters_are_plain_fields() {
    let span = CpuSet::first(2);
    let mut stat = Schedstat::new(vec![vec![("SMT".to_owned(), span)]; 2]);
    stat.cpus[1].ttwu_count += 1;
    stat.cpus[1].domains[0].ttwu_wake_remote += 1;
    stat.cpus[1].domains[0].lb[IdleType::Newidle as usize].lb_count += 2;
    assert_eq!((stat.cpus[1].id, stat.cpus[1].counters.ttwu_count), (CpuId(1), 1));
    assert_eq!(stat.cpus[1].domains[0].lb[2].lb_count, 2);
    assert_eq!(stat.cpus[0], Schedstat::new(vec![vec![("SMT".to_owned(), CpuSet::first(2))]]).cpus[0]);
    stat.clear();
    assert_eq!(stat, Schedstat::new(vec![vec![("SMT".to_owned(), CpuSet::first(2))]; 2]));
}

#[test]
fn a_row_s_field_is_what_it_gets() {
    let mut balance = Balance::default();
    for (i, row) in BALANCE_ROWS.iter().enumerate() {
        *(row.field)(&mut balance) = 1 << i;
    }
    for (i, row) in BALANCE_ROWS.iter().enumerate() {
        let kinds = if row.since == Since::Mixed { 0b1_1111 << i } else { 1 << i };
        assert_eq!((row.get)(&balance), kinds, "{}", row.name);
    }
}
