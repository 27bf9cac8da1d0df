//! Plain text: the output of `lscpu`, `lscpu -e`, `lscpu -p` and `numactl -H`, one after the other or alone.
//!
//! `numactl -H` has nodes and distances, but no cores or caches. So it is not enough alone, and gives the distances to
//! the output of lscpu before or after it.

use super::{Read, lscpu};
use schedlab_base::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Reads the text.
///
/// # Errors
/// When it is none of these, or its parts contradict each other.
pub(super) fn read(text: &str) -> Result<Read> {
    let nodes = Nodes::of(text)?;
    let rows = rows(text)?;
    let mut read = if !rows.is_empty() {
        lscpu::of_rows(&rows)?
    } else if text.lines().any(|l| l.trim_start().starts_with("CPU(s):")) {
        lscpu::of_summary(&fields(text))?
    } else if !nodes.cpus.is_empty() {
        return Err(Error::input("numactl -H says which CPUs a node has, and not which share a core or a cache").help(
            "put the rows of lscpu before it: (lscpu -e; numactl -H) > box.txt; or take hwloc's XML (lstopo box.xml)",
        ));
    } else {
        return Err(Error::input("this text does not describe a machine").help(
            "it takes lscpu, lscpu -e, lscpu -J and lscpu -e -J, each also with numactl -H behind it, hwloc's XML \
             (lstopo box.xml), and a copy of /sys/devices/system",
        ));
    };
    nodes.give_distances(&mut read)?;
    Ok(read)
}

/// Lines such as "Socket(s):     2", in the form of `lscpu -J`.
fn fields(text: &str) -> Vec<Value> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, data)| json!({ "field": name.trim(), "data": data.trim() })).collect()
}

/// The rows of `lscpu -e`, below "CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE", or of `lscpu -p`, below "#
/// CPU,Core,Socket,Node,,L1d,L1i,L2,L3", in the form of `lscpu -e -J`.
fn rows(text: &str) -> Result<Vec<Value>> {
    let mut heads: Option<Vec<String>> = None;
    let mut all = Vec::new();
    for line in text.lines() {
        let parted = line.trim().strip_prefix("# ").unwrap_or(line.trim()).starts_with("CPU,");
        let words = |line: &str| -> Vec<String> {
            match parted || line.contains(',') && !line.contains(char::is_whitespace) {
                true => line.trim_start_matches("# ").split(',').map(str::to_owned).collect(),
                false => line.split_whitespace().map(str::to_owned).collect(),
            }
        };
        let cells = words(line.trim());
        if cells.first().is_some_and(|w| w == "CPU") && cells.len() > 1 {
            heads = Some(cells.iter().map(|w| w.to_ascii_lowercase()).collect());
        } else if let Some(heads) = &heads
            && cells.first().is_some_and(|w| w.bytes().all(|b| b.is_ascii_digit()))
        {
            if cells.len() != heads.len() {
                return Err(Error::input(format!(
                    "a row of lscpu has {} columns, not {}: {line}",
                    cells.len(),
                    heads.len()
                )));
            }
            all.push(row(heads, &cells));
        } else if !line.starts_with('#') {
            heads = None;
        }
    }
    Ok(all)
}

/// A row's cells by name; "-" and "" are unknown. Caches in several columns become one column.
fn row(heads: &[String], cells: &[String]) -> Value {
    let mut row = Map::new();
    let (mut levels, mut ids) = (Vec::new(), Vec::new());
    for (head, cell) in heads.iter().zip(cells).filter(|(head, _)| !head.is_empty()) {
        if head.starts_with('l') && head[1..].starts_with(|c: char| c.is_ascii_digit()) && !head.contains(':')
        {
            levels.push(head.as_str());
            ids.push(cell.as_str());
        } else if !["-", ""].contains(&cell.as_str()) {
            row.insert(head.clone(), Value::String(cell.clone()));
        }
    }
    if !levels.is_empty() {
        row.insert(levels.join(":"), Value::String(ids.join(":")));
    }
    Value::Object(row)
}

/// The content of `numactl -H`.
#[derive(Default)]
struct Nodes {
    cpus: BTreeMap<u64, BTreeSet<u64>>,
    /// The heads of the table's columns, and its rows.
    columns: Vec<u64>,
    distances: BTreeMap<u64, Vec<u32>>,
}

impl Nodes {
    /// "node 0 cpus: 0 1", "node distances:", "node     0    1", "  0:   10   20".
    fn of(text: &str) -> Result<Nodes> {
        let mut nodes = Nodes::default();
        let mut within = false;
        for line in text.lines().map(str::trim) {
            let wrong = || Error::input(format!("a line of numactl -H can't be read: {line}"));
            let words: Vec<&str> = line.split_whitespace().collect();
            let numbers = |words: &[&str]| words.iter().map(|w| w.parse().ok()).collect::<Option<Vec<u64>>>();
            match &words[..] {
                ["node", "distances:"] => within = true,
                ["node", node, "cpus:", cpus @ ..] => {
                    let node = node.parse().map_err(|_| wrong())?;
                    nodes.cpus.insert(node, numbers(cpus).ok_or_else(wrong)?.into_iter().collect());
                }
                ["node", columns @ ..] if within && nodes.columns.is_empty() => {
                    nodes.columns = numbers(columns).ok_or_else(wrong)?;
                }
                [node, row @ ..] if within && node.ends_with(':') => {
                    let node = node.trim_end_matches(':').parse().map_err(|_| wrong())?;
                    let row: Option<Vec<u32>> = row.iter().map(|w| w.parse().ok()).collect();
                    nodes
                        .distances
                        .insert(node, row.filter(|r| r.len() == nodes.columns.len()).ok_or_else(wrong)?);
                }
                _ => within = false,
            }
        }
        Ok(nodes)
    }

    /// Gives the nodes with CPUs their distances.
    fn give_distances(&self, read: &mut Read) -> Result<()> {
        for place in &read.places {
            let listed = self.cpus.iter().find(|(_, cpus)| cpus.contains(&place.cpu));
            if let Some((node, _)) = listed.filter(|(node, _)| **node != place.node) {
                return Err(Error::input(format!(
                    "CPU {} is of node {} by lscpu and of node {node} by numactl",
                    place.cpu, place.node
                ))
                .help("both must be of one machine"));
            }
        }
        let with_cpus: BTreeSet<u64> = read.places.iter().map(|p| p.node).collect();
        let of = |from: &u64, to: &u64| {
            let column = self.columns.iter().position(|node| node == to)?;
            self.distances.get(from)?.get(column).copied()
        };
        let row = |from: &u64| with_cpus.iter().map(|to| of(from, to)).collect::<Option<Vec<u32>>>();
        read.distances = with_cpus.iter().map(row).collect::<Option<_>>().unwrap_or_default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{counts, imported};

    const ROWS: &str = "CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE\n  0    0      0    0 0:0:0:0          yes\n\
        \x20 1    1      1    1 1:1:1:1          yes\n  2    0      0    0 0:0:0:0          yes\n\
        \x20 3    1      1    1 1:1:1:1          yes\n  4    -      -    - -                 no\n";
    const NODES: &str = "available: 3 nodes (0-2)\nnode 0 cpus: 0 2\nnode 0 size: 963 MB\nnode 1 cpus: 1 3\n\
        node 2 cpus:\nnode distances:\nnode     0    1    2 \n   0:   10   32   17 \n   1:   32   10   28 \n   2:   17   28   10 \n";

    #[test]
    fn rows_in_plain_text_equal_those_of_json() {
        let m = imported("a.txt", ROWS).unwrap();
        assert_eq!((counts(&m), m.topology.node_distance[0][1]), ([2, 2, 2, 2, 2], 20));
        let parsable = "# The following is the parsable format, which can be fed to other\n# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n\
            0,0,0,0,,0,0,0,0\n1,1,1,1,,1,1,1,1\n2,0,0,0,,0,0,0,0\n3,1,1,1,,1,1,1,1\n";
        assert_eq!(imported("a.txt", parsable).unwrap().topology.cpus, m.topology.cpus);
        assert!(imported("a.txt", "CPU CORE\n0 0 0\n").unwrap_err().to_string().contains("3 columns, not 2"));
        let no_core = imported("a.txt", "CPU NODE\n0 0\n").unwrap_err().to_string();
        assert!(no_core.contains("without its CPU or core"), "{no_core}");
    }

    #[test]
    fn numactl_gives_distances_and_no_machine_alone() {
        for text in [format!("{ROWS}{NODES}"), format!("{NODES}{ROWS}")] {
            let m = imported("a.txt", &text).unwrap();
            assert_eq!(
                m.topology.node_distance,
                [[10, 32], [32, 10]],
                "the node of memory alone is left out"
            );
        }
        let alone = imported("a.txt", NODES).unwrap_err();
        assert!(alone.to_string().contains("not which share a core"), "{alone}");
        assert!(alone.remedy().unwrap().contains("lscpu -e; numactl -H"));
        let other = format!(
            "{ROWS}{}",
            NODES.replace("0 cpus: 0 2", "0 cpus: 0 1").replace("1 cpus: 1 3", "1 cpus: 2 3")
        );
        assert!(
            imported("a.txt", &other).unwrap_err().to_string().contains("of node 1 by lscpu and of node 0")
        );
        assert!(imported("a.txt", &format!("{ROWS}{}", NODES.replace("32   17", "17"))).is_err());
    }

    #[test]
    fn the_summary_in_plain_text_is_that_of_json() {
        let text = "Architecture:            x86_64\nCPU(s):                  8\n  On-line CPU(s) list:   0-7\n\
            Model name:              A CPU: fast\nThread(s) per core:      2\nCore(s) per socket:      2\n\
            Socket(s):               2\n\
            L3 cache:                64 MiB (2 instances)\nNUMA node(s):            2\n\
            NUMA node0 CPU(s):       0,1,4,5\nNUMA node1 CPU(s):       2,3,6,7\n";
        let m = imported("a.txt", text).unwrap();
        assert_eq!((counts(&m), m.about.as_str()), ([2, 2, 2, 4, 2], "8 CPUs of A CPU: fast"));
        assert!(imported("a.txt", &text.replace("8\n", "9\n")).is_err());
    }

    #[test]
    fn damaged_texts_are_read_or_refused() {
        let summary = "CPU(s): 2\nCore(s) per socket: 2\nSocket(s): 1\n";
        for text in [format!("{ROWS}{NODES}"), format!("{summary}{NODES}")] {
            for end in 0..text.len() {
                let _ = imported("a.txt", &text[..end]);
                let mut bytes = text.clone().into_bytes();
                bytes[end] = b"9-:, \n"[end % 6];
                let _ = imported("a.txt", &String::from_utf8(bytes).unwrap());
            }
        }
    }
}
