//! hwloc's XML, versions 1 and 2, as `lstopo box.xml` writes it: nested objects of machine, packages, caches, cores and
//! threads ("PU").
//!
//! Only tags and their attributes count. A node's CPUs are those of its `cpuset`: version 2 has nodes next to the units
//! that they serve, not around them. The `cpuset` of a node with only memory has the CPUs near it. Kinds of CPUs
//! (`cpukind`, 2.4) have the kernel's capacity as `LinuxCapacity` if the kernel shows one.

use super::{CpuUnits, Read};
use schedlab_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// A tag: its name, its attributes, and whether it opens or closes an element.
struct Tag<'a> {
    name: &'a str,
    attributes: Vec<(&'a str, String)>,
    opens: bool,
    closes: bool,
    /// The text up to the next tag.
    text: &'a str,
}

impl Tag<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str())
    }
    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}

/// The tags of a text; comments and declarations are skipped.
fn tags(text: &str) -> Result<Vec<Tag<'_>>> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = if rest.starts_with("!--") { "-->" } else { ">" };
        let Some(close) = rest.find(end) else { return Err(Error::input("a tag of the XML does not end")) };
        let inner = &rest[..close];
        rest = &rest[close + end.len()..];
        if inner.starts_with(['!', '?']) {
            continue;
        }
        let (closing, opening) = (inner.starts_with('/'), !inner.starts_with('/'));
        let body = inner.trim_start_matches('/').trim_end_matches('/');
        let (name, attributes) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
        let next = &rest[..rest.find('<').unwrap_or(rest.len())];
        let closes = closing || inner.ends_with('/');
        all.push(Tag { name, attributes: pairs(attributes), opens: opening, closes, text: next });
    }
    Ok(all)
}

/// `a="1" b="2"`, with the usual entities.
fn pairs(text: &str) -> Vec<(&str, String)> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some((name, value)) = rest.split_once('=') {
        let value = value.trim_start();
        let Some(quote) = value.chars().next().filter(|c| ['"', '\''].contains(c)) else { break };
        let Some((value, after)) = value[1..].split_once(quote) else { break };
        let plain = [("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")]
            .iter()
            .fold(value.to_owned(), |text, (entity, c)| text.replace(entity, c));
        all.push((name.trim(), plain));
        rest = after;
    }
    all
}

/// The numbers in a mask: words of 32 bits with commas between them, the highest first.
fn mask(text: &str) -> Option<Vec<u64>> {
    let words: Vec<u64> = text
        .split(',')
        .map(|word| match word.trim().trim_start_matches("0x") {
            "" => Some(0),
            digits => u64::from_str_radix(digits, 16).ok(),
        })
        .collect::<Option<_>>()?;
    let words = words.iter().rev().enumerate();
    Some(
        words
            .flat_map(|(at, word)| {
                (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at as u64 * 32 + bit)
            })
            .collect(),
    )
}

/// The level of a cache that holds data.
fn cache_level(tag: &Tag<'_>) -> Option<u64> {
    match tag.get("type")? {
        "Cache" if tag.get("cache_type") != Some("2") => tag.number("depth"),
        name => name.strip_prefix('L')?.strip_suffix("Cache")?.parse().ok(),
    }
}

/// Reads the XML.
///
/// # Errors
/// When it is not hwloc's, or has no CPUs.
pub(super) fn read(text: &str) -> Result<Read> {
    let tags = tags(text)?;
    if !tags.iter().any(|tag| tag.name == "topology") {
        return Err(Error::input("not hwloc's XML").help("lstopo box.xml writes it"));
    }
    let mut open: Vec<usize> = Vec::new();
    let mut places = Vec::new();
    let mut nodes: Vec<(u64, Vec<u64>)> = Vec::new();
    let mut model = String::new();
    for (at, tag) in tags.iter().enumerate() {
        if tag.name == "info" && tag.get("name") == Some("CPUModel") && model.is_empty() {
            model = tag.get("value").unwrap_or_default().to_owned();
        }
        if tag.name != "object" {
            continue;
        }
        if tag.opens {
            open.push(at);
            match tag.get("type") {
                Some("NUMANode" | "Node") => {
                    let cpus = tag.get("cpuset").and_then(mask).unwrap_or_default();
                    let node = tag.number("os_index").unwrap_or(at as u64);
                    nodes.push((node, cpus));
                }
                Some("PU") => places.push(place(&tags, &open, tag)?),
                _ => {}
            }
        }
        if tag.closes {
            open.pop();
        }
    }
    if places.is_empty() {
        return Err(Error::input("the XML has no CPUs (objects of type PU)"));
    }
    let node_of = node_of(nodes);
    places.iter_mut().for_each(|p| p.node = node_of.get(&p.cpu).copied().unwrap_or(0));
    let with_cpus: BTreeSet<u64> = places.iter().map(|p| p.node).collect();
    let (capacities, lacks) = kinds(&tags)?;
    let distances = distances(&tags, &with_cpus);
    Ok(Read { places, distances, capacities, lacks, model, source: "hwloc's XML" })
}

/// The capacities of the CPUs by their kinds; and a note if there are several kinds without capacities.
fn kinds(tags: &[Tag<'_>]) -> Result<(BTreeMap<u64, u64>, String)> {
    let mut all = BTreeMap::new();
    let (mut kinds, mut names) = (0, Vec::new());
    let mut open: Option<Vec<u64>> = None;
    for tag in tags {
        match tag.name {
            "cpukind" if tag.opens => {
                kinds += 1;
                open = tag.get("cpuset").and_then(mask).filter(|_| !tag.closes);
            }
            "cpukind" => open = None,
            "info" if tag.get("name") == Some("LinuxCapacity") => {
                let Some(cpus) = &open else { continue };
                let text = tag.get("value").unwrap_or_default();
                let wrong =
                    || Error::input(format!("LinuxCapacity of a cpukind is '{text}', which is not a number"));
                let capacity: u64 = text.trim().parse().map_err(|_| wrong())?;
                all.extend(cpus.iter().map(|cpu| (*cpu, capacity)));
            }
            "info" if tag.get("name") == Some("CoreType") && open.is_some() => {
                names.extend(tag.get("value").map(str::to_owned));
            }
            _ => {}
        }
    }
    let lacks = match (kinds > 1 && all.is_empty(), names.is_empty()) {
        (false, _) => String::new(),
        (true, true) => {
            format!("it has {kinds} kinds of CPUs without LinuxCapacity: all count as equally fast")
        }
        (true, false) => format!(
            "it has {kinds} kinds of CPUs ({}) without LinuxCapacity: all count as equally fast",
            names.join(", ")
        ),
    };
    Ok((all, lacks))
}

/// The node of each CPU. If several nodes name a CPU, all but one hold only memory: the kernel numbers these last, and
/// one that serves several packages names the CPUs of all.
fn node_of(mut nodes: Vec<(u64, Vec<u64>)>) -> BTreeMap<u64, u64> {
    nodes.sort_by_key(|(node, cpus)| (cpus.len(), *node));
    let mut all = BTreeMap::new();
    for (node, cpus) in nodes {
        cpus.into_iter().for_each(|cpu| {
            all.entry(cpu).or_insert(node);
        });
    }
    all
}

/// A thread's place: the objects around it, each named by the position of its tag.
fn place(tags: &[Tag<'_>], open: &[usize], pu: &Tag<'_>) -> Result<CpuUnits> {
    let cpu = pu.number("os_index").ok_or_else(|| Error::input("a PU of the XML has no os_index"))?;
    let around = |is: &dyn Fn(&Tag<'_>) -> bool| {
        open.iter().rev().copied().find(|at| is(&tags[*at])).map(|at| at as u64)
    };
    let of = |names: &'static [&'static str]| {
        around(&|tag| tag.get("type").is_some_and(|name| names.contains(&name)))
    };
    let own = open.last().map_or(0, |at| *at as u64);
    let package = of(&["Package", "Socket"]).or_else(|| of(&["Machine"])).unwrap_or(0);
    let core = of(&["Core"]).unwrap_or(own);
    let shared = |at: &&usize| cache_level(&tags[**at]).is_some_and(|level| level >= 2);
    // The outermost cache is the last level; an L2 inside it may be shared by cores.
    let llc = open.iter().find(shared).map_or(package, |at| *at as u64);
    let l2 = around(&|tag| cache_level(tag) == Some(2));
    let cluster = l2.filter(|l2| *l2 != llc).unwrap_or(core);
    Ok(CpuUnits { cpu, package, node: 0, llc, cluster, core })
}

/// Distances of the nodes with CPUs in the order of their numbers, if they are the firmware's: those have 10 on the
/// diagonal. Otherwise empty.
fn distances(tags: &[Tag<'_>], with_cpus: &BTreeSet<u64>) -> Vec<Vec<u32>> {
    let first =
        tags.iter().position(|t| t.name == "distances2" && t.opens && t.get("type") == Some("NUMANode"));
    let Some(first) = first else { return Vec::new() };
    let numbers = |name: &'static str| -> Vec<u64> {
        let inside = tags[first..].iter().take_while(|t| t.name != "distances2" || t.opens);
        let texts = inside.filter(|t| t.name == name && t.opens).flat_map(|t| t.text.split_whitespace());
        texts.filter_map(|word| word.parse().ok()).collect()
    };
    let (values, indexes) = (numbers("u64values"), numbers("indexes"));
    let nodes = tags[first].number("nbobjs").unwrap_or(0) as usize;
    let rows: Vec<&[u64]> = values.chunks(nodes.max(1)).collect();
    let is_whole = rows.len() == nodes && rows.iter().enumerate().all(|(at, row)| row.get(at) == Some(&10));
    if !is_whole {
        return Vec::new();
    }
    let has_cpus = |at: &usize| indexes.len() != nodes || with_cpus.contains(&indexes[*at]);
    let mut kept: Vec<usize> = (0..nodes).filter(has_cpus).collect();
    kept.sort_by_key(|at| indexes.get(*at));
    let row = |at: &usize| kept.iter().map(|to| u32::try_from(rows[*at][*to]).unwrap_or(u32::MAX)).collect();
    kept.iter().map(row).collect()
}
