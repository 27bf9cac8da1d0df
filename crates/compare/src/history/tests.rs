//! Tests of histories: shares of series, days of a year, machines that measure a commit on different days.

use super::*;
use schedlab_record::Better;

fn rows(text: &str) -> Vec<Row> {
    read::rows(Path::new("h.csv"), text, &Reading::default()).unwrap()
}

fn judged(text: &str) -> Judged {
    judge(&rows(text), &Asked::default()).unwrap()
}

/// A value that is odd by up to a per cent.
fn odd(day: usize) -> f64 {
    1.0 + 0.01 * ((day * 37 % 101) as f64 / 101.0 - 0.5)
}

#[test]
fn series_share_five_per_cent_and_own_results_have_half_of_it() {
    let line = |metric: &str| format!("2026-01-01,hackbench,{metric},1\n");
    let text =
        ["date,workload,metric,value\n".to_owned(), line("hackbench.elapsed.mean"), line("a"), line("b")];
    let j = judged(&text.concat());
    let alphas: Vec<f64> = j.series.iter().map(|s| s.alpha).collect();
    assert_eq!(j.series.iter().map(|s| s.own).collect::<Vec<_>>(), [true, false, false]);
    for (alpha, share) in alphas.iter().zip([0.025, 0.0125, 0.0125]) {
        assert!((alpha - share).abs() < 1e-12, "{alphas:?}");
    }
}

#[test]
fn units_are_days_and_commits_in_the_order_of_time_and_runs_are_trimmed() {
    let text = "date,commit,metric,value\n\
                2026-01-03T12:00,c,m,7\n2026-01-03T09:00,b,m,5\n2026-01-01,a,m,1\n2026-01-01,a,m,2\n\
                2026-01-01,a,m,3\n2026-01-01,a,m,1000\n2026-01-01,a,m,2\n";
    let j = judged(text);
    let units: Vec<(&str, &str, usize)> =
        j.series[0].units.iter().map(|u| (u.at.date.as_str(), u.at.commit.as_str(), u.runs)).collect();
    assert_eq!(units, [("2026-01-01", "a", 5), ("2026-01-03", "b", 1), ("2026-01-03", "c", 1)]);
    assert!((j.series[0].units[0].mean - libm::cbrt(12.0)).abs() < 1e-9, "the geometric mean of 2, 2 and 3");
}

#[test]
fn machines_that_measure_a_commit_on_different_days_show_one_change() {
    let mut text = String::from("date,commit,machine,metric,better,value\n");
    for (machine, late) in [("a", 0), ("b", 3), ("c", 1)] {
        for commit in 0..60 {
            let date = dates::name(20_000 + commit + late);
            let value = if commit >= 30 { 8.0 } else { 10.0 } * odd(commit as usize + late as usize);
            text += &format!("{date},r{commit},{machine},m,higher,{value}\n");
        }
    }
    let j = judged(&text);
    let [c] = &j.changes[..] else { panic!("{:?}", j.changes) };
    assert_eq!((c.on, c.machines.len(), c.first.commit.as_str(), c.cause), (3, 3, "r30", Cause::Commit));
    assert!((-21.0..-19.0).contains(&c.change_pct) && c.ci95_pct[1] < -18.0, "{c:?}");
    assert_eq!(j.series[0].better, Better::Higher);
    assert_eq!(j.series.iter().map(|s| s.levels.len()).collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn values_of_zero_and_below_have_a_scale_too() {
    let mut text = String::from("commit,metric,value\n");
    for commit in 0..60 {
        let value =
            if commit >= 30 { 20.0 } else { 10.0 } * odd(commit) - if commit == 7 { 10.0 } else { 0.0 };
        text += &format!("r{commit},m,{value}\n");
    }
    let j = judged(&text);
    assert_eq!(j.changes.len(), 1);
    assert_eq!((j.changes[0].first.commit.as_str(), j.changes[0].first.date.as_str()), ("r30", ""));
    // Of constants there is nothing to say.
    let j = judged("commit,metric,value\na,m,0\nb,m,0\nc,m,0\n");
    assert_eq!((j.changes.len(), j.series[0].units[2].mean), (0, 0.0));
}
