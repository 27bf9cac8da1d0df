//! Reads rtla of the kernel's tree: `timerlat` and `osnoise`, as `top` and as `hist`, of 5.17 to 7.3.
//!
//! Timer latencies are in us, or in ns with `-n`; the text says which. `top` without `-q` prints its table repeatedly:
//! the last one of a run counts. If there is a row or column for all CPUs, its values are taken.

use super::text::{missing, scaled, whole};
use super::tool::{BLANK, FigureRow, FigureValues, Reading, Tool};
use schedlab_base::Result;
use schedlab_record::Better::{Higher, Lower, Neither};
use std::borrow::Cow;

/// Only its saved outputs are read: it needs root and a kernel with these tracers.
pub const TIMERLAT: Tool = Tool {
    name: "rtla-timerlat",
    about: "rtla timerlat top and hist: how late a timer's interrupt and its thread come",
    figures: &[
        FigureRow("samples", "", Neither, "timers that expired, on all CPUs"),
        FigureRow("irq.min", "ns", Lower, "least delay of the timer's interrupt"),
        FigureRow("irq.avg", "ns", Lower, "mean delay of the timer's interrupt"),
        FigureRow("irq.max", "ns", Lower, "longest delay of the timer's interrupt"),
        FigureRow("thread.min", "ns", Lower, "least delay of the thread that the interrupt wakes"),
        FigureRow("thread.avg", "ns", Lower, "mean delay of that thread"),
        FigureRow("thread.max", "ns", Lower, "longest delay of that thread"),
        FigureRow("user.min", "ns", Lower, "least delay until that thread was back in user space"),
        FigureRow("user.avg", "ns", Lower, "mean delay until then"),
        FigureRow("user.max", "ns", Lower, "longest delay until then"),
    ],
    headline: &["thread.avg", "thread.max", "irq.avg", "irq.max"],
    knows: |text| plain_lines(text).any(|l| is_timerlat(&l)),
    read: |text| read(text, &is_timerlat, "rtla timerlat"),
    ..BLANK
};

/// Only its saved outputs are read.
pub const OSNOISE: Tool = Tool {
    name: "rtla-osnoise",
    about: "rtla osnoise top and hist, and hwnoise: how much time a thread that only runs does not get",
    figures: &[
        FigureRow("available", "%", Higher, "the thread's part of its CPU's time, over all CPUs"),
        FigureRow("noise.max", "ns", Lower, "most noise of a period, of any CPU"),
        FigureRow("single.avg", "ns", Lower, "mean length of an interruption (hist)"),
        FigureRow("single.max", "ns", Lower, "longest interruption, of any CPU"),
        FigureRow("single.count", "", Lower, "interruptions (hist)"),
        FigureRow("hw", "", Lower, "interruptions by hardware"),
        FigureRow("nmi", "", Lower, "non-maskable interrupts"),
        FigureRow("irq", "", Lower, "interrupts"),
        FigureRow("softirq", "", Lower, "soft interrupts"),
        FigureRow("thread", "", Lower, "interruptions by other threads"),
    ],
    headline: &["available", "single.max", "noise.max"],
    knows: |text| plain_lines(text).any(|l| is_osnoise(&l)),
    read: |text| read(text, &is_osnoise, "rtla osnoise"),
    ..BLANK
};

fn is_timerlat(line: &str) -> bool {
    line == "Timer Latency" || line == "# RTLA timerlat histogram"
}

fn is_osnoise(line: &str) -> bool {
    ["Operating System Noise", "Hardware-related Noise", "# RTLA osnoise histogram"].contains(&line)
}

/// The lines without terminal escapes, with which `top` colours its head.
fn plain_lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    super::text::lines(text).map(|line| match line.contains('\u{1b}') {
        false => Cow::Borrowed(line),
        true => {
            let mut plain = String::new();
            for (at, part) in line.split('\u{1b}').enumerate() {
                let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(0, |end| end + 1);
                plain.push_str(if at == 0 { part } else { &part[end..] });
            }
            Cow::Owned(plain.trim().to_owned())
        }
    })
}

/// A table, from its head to the next one.
#[derive(Default)]
struct Table {
    /// Seconds since the start of the run.
    seconds: f64,
    factor: f64,
    /// Heads of the columns of `hist`.
    columns: Vec<String>,
    /// Number of CPUs that have columns.
    cpus: usize,
    rows: Vec<Vec<String>>,
}

fn read(text: &str, is_head: &dyn Fn(&str) -> bool, tool: &str) -> Result<Vec<Reading>> {
    let mut tables: Vec<Table> = Vec::new();
    for line in plain_lines(text) {
        if is_head(&line) {
            tables.push(Table { factor: 1e3, ..Table::default() });
        } else if let Some(table) = tables.last_mut() {
            table.take(&line)?;
        }
    }
    // If a table is printed again, its run time is longer or, at the end, equal.
    let mut runs: Vec<&Table> = Vec::new();
    for table in &tables {
        let again = |last: &&mut &Table| table.seconds > last.seconds || table.rows == last.rows;
        match runs.last_mut().filter(|last| table.columns.is_empty() && again(last)) {
            Some(last) if !table.rows.is_empty() => *last = table,
            Some(_) => {}
            None => runs.push(table),
        }
    }
    let mut all = Vec::new();
    for table in runs {
        let (cpus, values) = if tool.ends_with("osnoise") { table.osnoise()? } else { table.timerlat()? };
        if !values.is_empty() {
            all.push(Reading { load: Some(format!("{cpus} CPUs")), values, ..Reading::default() });
        }
    }
    if all.is_empty() {
        return Err(missing(
            tool,
            "row of a CPU with values, and no 'count:', 'min:', 'avg:' and 'max:' of a histogram",
        ));
    }
    Ok(all)
}

impl Table {
    fn take(&mut self, line: &str) -> Result<()> {
        if line.contains("(ns)") || line.ends_with("time is in ns") {
            self.factor = 1.0;
        }
        let words: Vec<&str> = line.split_whitespace().filter(|w| *w != "|").collect();
        // "0 00:10:01 |", "duration:   0 00:00:05 |", "# Duration:   0 00:00:06"
        let clock = words.iter().find(|w| w.len() == 8 && w.matches(':').count() == 2);
        if let Some(clock) = clock.filter(|_| self.rows.is_empty()) {
            self.seconds =
                clock.split(':').filter_map(|n| n.parse::<f64>().ok()).fold(0.0, |all, n| all * 60.0 + n);
            return Ok(());
        }
        match words.first() {
            Some(&"Index" | &"ALL:") => {
                self.columns = words[1..].iter().map(|w| (*w).to_owned()).collect();
                // "IRQ-000", "Thr-000"; in osnoise "CPU-000".
                let of_first = |w: &&&str| w.get(..4).is_some_and(|kind| Some(kind) == words[1].get(..4));
                if words[0] == "Index" && words.len() > 1 {
                    self.cpus = words[1..].iter().filter(of_first).count();
                }
                // Values for all CPUs replace those of the columns before.
                if words[0] == "ALL:" {
                    self.rows.push(vec!["all".to_owned()]);
                }
            }
            Some(&"count:" | &"min:" | &"avg:" | &"max:") if !self.columns.is_empty() => {
                self.rows.push(words.iter().map(|w| (*w).to_owned()).collect());
            }
            Some(cpu) if self.columns.is_empty() && words.get(1).is_some_and(|w| w.starts_with('#')) => {
                if *cpu != "ALL" {
                    whole(cpu)?;
                }
                self.rows.push(words.iter().map(|w| (*w).to_owned()).collect());
            }
            _ => {}
        }
        Ok(())
    }

    /// The lines of `hist` below the last heads; those for all CPUs, if present.
    fn stat(&self, name: &str) -> Result<Vec<Option<f64>>> {
        let from = self.rows.iter().rposition(|row| row.len() == 1).map_or(0, |at| at + 1);
        let row = self.rows[from..].iter().find(|row| row.first().is_some_and(|w| w == name));
        let number = |word: &String| if word == "-" { Ok(None) } else { whole(word).map(Some) };
        row.map_or(Ok(Vec::new()), |row| row[1..].iter().map(number).collect())
    }

    /// For each kind of column: count, min, avg and max.
    fn histogram(&self, kinds: &[(&str, &str)]) -> Result<Vec<(String, [f64; 4])>> {
        let [count, min, avg, max] =
            [self.stat("count:")?, self.stat("min:")?, self.stat("avg:")?, self.stat("max:")?];
        let mut all = Vec::new();
        for (begin, name) in kinds {
            let mut sum = [0.0, f64::INFINITY, 0.0, 0.0];
            for (at, _) in self.columns.iter().enumerate().filter(|(_, c)| c.starts_with(begin)) {
                let of = |row: &[Option<f64>]| row.get(at).copied().flatten();
                let Some(n) = of(&count).filter(|n| *n > 0.0) else { continue };
                let (Some(min), Some(avg), Some(max)) = (of(&min), of(&avg), of(&max)) else { continue };
                sum = [sum[0] + n, sum[1].min(min), sum[2] + n * avg, sum[3].max(max)];
            }
            if sum[0] > 0.0 {
                all.push(((*name).to_owned(), [sum[0], sum[1], sum[2] / sum[0], sum[3]]));
            }
        }
        Ok(all)
    }

    fn put(&self, values: &mut FigureValues, name: &str, ns: f64) {
        values.insert(name.to_owned(), scaled(ns, self.factor));
    }

    fn timerlat(&self) -> Result<(usize, FigureValues)> {
        let mut values = FigureValues::new();
        if !self.columns.is_empty() {
            let kinds = self.histogram(&[("IRQ", "irq"), ("Thr", "thread"), ("Usr", "user")])?;
            for (name, [n, min, avg, max]) in kinds {
                values.entry("samples".to_owned()).or_insert(n);
                for (stat, v) in [("min", min), ("avg", avg), ("max", max)] {
                    self.put(&mut values, &format!("{name}.{stat}"), v);
                }
            }
            return Ok((self.cpus, values));
        }
        let cpus = self.rows.iter().filter(|row| row[0] != "ALL").count();
        // " 0 #99 370 22 3398 49530 414 63 3485 49568": count, then cur, min, avg and max of each kind.
        let mut sums = [[0.0, f64::INFINITY, 0.0, 0.0]; 3];
        let mut samples = 0.0;
        for row in self.rows.iter().filter(|row| row[0] != "ALL") {
            let count = whole(row[1].trim_start_matches('#'))?;
            samples += count;
            for (sum, four) in sums.iter_mut().zip(row[2..].chunks_exact(4)) {
                // A CPU without samples of a kind so far has dashes.
                if four.iter().any(|word| word == "-") {
                    continue;
                }
                let (min, avg, max) = (whole(&four[1])?, whole(&four[2])?, whole(&four[3])?);
                *sum = [sum[0] + count, sum[1].min(min), sum[2] + count * avg, sum[3].max(max)];
            }
        }
        for (name, [n, min, avg, max]) in ["irq", "thread", "user"].iter().zip(sums) {
            if n > 0.0 {
                for (stat, v) in [("min", min), ("avg", avg / n), ("max", max)] {
                    self.put(&mut values, &format!("{name}.{stat}"), v);
                }
                values.insert("samples".to_owned(), samples);
            }
        }
        Ok((cpus, values))
    }

    fn osnoise(&self) -> Result<(usize, FigureValues)> {
        let mut values = FigureValues::new();
        if !self.columns.is_empty() {
            let kinds = self.histogram(&[("CPU", "single")])?;
            for (_, [n, _, avg, max]) in kinds {
                values.insert("single.count".to_owned(), n);
                self.put(&mut values, "single.avg", avg);
                self.put(&mut values, "single.max", max);
            }
            return Ok((self.cpus, values));
        }
        let (mut runtime, mut noise) = (0.0, 0.0);
        let mut most = [0.0_f64; 2];
        // "0 #4   436712  310626  28.87165  98355  30151  187  0  61  0  46"
        for row in &self.rows {
            let numbers: Vec<f64> = row[2..].iter().map(|w| whole(w)).collect::<Result<_>>()?;
            let [ran, lost, _, max, single, counts @ ..] = &numbers[..] else { continue };
            (runtime, noise) = (runtime + ran, noise + lost);
            most = [most[0].max(*max), most[1].max(*single)];
            for (name, n) in ["hw", "nmi", "irq", "softirq", "thread"].iter().zip(counts) {
                *values.entry((*name).to_owned()).or_insert(0.0) += n;
            }
        }
        if runtime > 0.0 {
            values.insert("available".to_owned(), scaled(100.0 * (1.0 - noise / runtime), 1.0));
            self.put(&mut values, "noise.max", most[0]);
            self.put(&mut values, "single.max", most[1]);
        }
        Ok((self.rows.len(), values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: &str = "\u{1b}[2;37;40m                                     Timer Latency           \u{1b}[0;0;0m\n\
        \x20 0 00:00:04   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)\n\
        \u{1b}[2;30;47mCPU COUNT      |      cur       min       avg       max |  cur  min  avg  max\u{1b}[0;0;0m\n\
        \x20 0 #300       |        1         2         4        30 |       10         6        10        31\n\
        \x20 1 #100       |        1         1         8        12 |        -         -         -         -\n\
        ---------------|----------------------------------------|---------------------------------------\n\
        ALL #400    e0 |                  1         5        30 |                  6        10        31\n";

    #[test]
    fn the_last_table_of_a_run_counts_and_its_unit() {
        let v = |text: &str| (TIMERLAT.read)(text).unwrap();
        let one = &v(TOP)[0].values;
        assert_eq!((one["irq.min"], one["irq.avg"], one["irq.max"], one["samples"]), (1e3, 5e3, 30e3, 400.0));
        assert_eq!((one["thread.avg"], one["thread.max"]), (10e3, 31e3), "CPU 1 has no thread's delay");
        let again = TOP.replace("00:00:04", "00:00:05").replace("30 |", "90 |");
        let both = v(&format!("{TOP}{again}"));
        assert_eq!((both.len(), both[0].values["irq.max"]), (1, 90e3), "the table is printed again");
        assert_eq!(v(&format!("{again}{TOP}")).len(), 2, "another run");
        assert_eq!(v(&format!("{TOP}{again}{again}")).len(), 1, "its end prints the last table again");
        assert_eq!(v(&TOP.replace("(us)", "(ns)"))[0].values["irq.max"], 30.0);
    }

    #[test]
    fn histograms_without_a_sum_are_summed_by_count() {
        let text = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:04\n\
            Index   IRQ-000   Thr-000   IRQ-001   Thr-001\n0 3 0 1 0\nover: 0 0 0 0\n\
            count: 3 3 1 0\nmin: 1 5 2 -\navg: 2 6 6 -\nmax: 9 9 7 -\n";
        let all = (TIMERLAT.read)(text).unwrap();
        let v = &all[0].values;
        assert_eq!((v["irq.avg"], v["irq.max"], v["thread.min"], v["samples"]), (3e3, 9e3, 5e3, 4.0));
        assert!((TIMERLAT.read)("# RTLA timerlat histogram\nIndex IRQ-000\ncount: 0\nmin: -\n").is_err());
        assert!((OSNOISE.knows)("# RTLA osnoise histogram\n") && !(OSNOISE.knows)(text));
    }
}
