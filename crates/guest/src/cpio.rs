//! Archives in cpio's "newc" form, which the kernel unpacks into its first root file system.
//!
//! The same files give the same bytes: inode numbers count from 1, owners and times are 0, and paths are sorted, so
//! that a folder precedes its files. Format: Documentation/driver-api/early-userspace/buffer-format of the kernel.
//! Several archives may follow each other, each at a multiple of four bytes.

use std::collections::BTreeMap;

/// A node of the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Folder,
    File {
        content: Vec<u8>,
        executable: bool,
    },
    Link(String),
    /// A character device: major and minor number.
    Device(u32, u32),
}

/// The files of an archive by path, without a leading slash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    nodes: BTreeMap<String, Node>,
}

/// Archives are padded to a multiple of this size, so that others may follow.
const BLOCK: usize = 512;
const TRAILER: &str = "TRAILER!!!";

impl Archive {
    /// Puts a node at an absolute path, and makes its parent folders.
    pub fn put(&mut self, path: &str, node: Node) {
        let path = path.trim_matches('/');
        for (end, _) in path.match_indices('/') {
            self.nodes.entry(path[..end].to_owned()).or_insert(Node::Folder);
        }
        self.nodes.insert(path.to_owned(), node);
    }
    /// Whether the archive has an absolute path.
    pub fn has(&self, path: &str) -> bool {
        self.nodes.contains_key(path.trim_matches('/'))
    }

    /// The archive's bytes, padded to a multiple of 512. Several archives may use the same inode numbers: the kernel
    /// links files by inode number only if they claim several links.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (inode, (path, node)) in (1u32..).zip(&self.nodes) {
            entry(&mut out, inode, path, node);
        }
        header(&mut out, &Head { inode: 0, mode: 0, links: 1, size: 0, device: (0, 0), name: TRAILER });
        pad(&mut out, BLOCK);
        out
    }
}

struct Head<'a> {
    inode: u32,
    mode: u32,
    links: u32,
    size: usize,
    device: (u32, u32),
    name: &'a str,
}

fn entry(out: &mut Vec<u8>, inode: u32, path: &str, node: &Node) {
    let (mode, links, content, device): (u32, u32, &[u8], (u32, u32)) = match node {
        Node::Folder => (0o040_755, 2, &[], (0, 0)),
        Node::File { content, executable: true } => (0o100_755, 1, content, (0, 0)),
        Node::File { content, executable: false } => (0o100_644, 1, content, (0, 0)),
        Node::Link(target) => (0o120_777, 1, target.as_bytes(), (0, 0)),
        Node::Device(major, minor) => (0o020_600, 1, &[], (*major, *minor)),
    };
    header(out, &Head { inode, mode, links, size: content.len(), device, name: path });
    out.extend_from_slice(content);
    pad(out, 4);
}

/// Magic, thirteen numbers of eight hexadecimal digits, the name with a NUL; padded to four bytes.
fn header(out: &mut Vec<u8>, head: &Head<'_>) {
    let (owner, group, time, check) = (0, 0, 0, 0);
    let (size, name_size) = (head.size as u32, head.name.len() as u32 + 1);
    let (major, minor) = head.device;
    let numbers =
        [head.inode, head.mode, owner, group, head.links, time, size, 0, 0, major, minor, name_size, check];
    out.extend_from_slice(b"070701");
    for number in numbers {
        out.extend_from_slice(format!("{number:08x}").as_bytes());
    }
    out.extend_from_slice(head.name.as_bytes());
    out.push(0);
    pad(out, 4);
}

fn pad(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(content: &[u8]) -> Node {
        Node::File { content: content.to_vec(), executable: false }
    }

    /// Names, modes and contents, read as the kernel does.
    fn read(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let (mut at, mut found) = (0, Vec::new());
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701", "at {at}");
            let number = |i: usize| {
                let text = std::str::from_utf8(&bytes[at + 6 + 8 * i..at + 14 + 8 * i]).unwrap();
                u32::from_str_radix(text, 16).unwrap()
            };
            let (mode, size, name_size) = (number(1), number(6) as usize, number(11) as usize);
            let name = std::str::from_utf8(&bytes[at + 110..at + 110 + name_size - 1]).unwrap().to_owned();
            let content = (at + 110 + name_size).next_multiple_of(4);
            at = (content + size).next_multiple_of(4);
            if name == TRAILER {
                assert!(bytes[at..].iter().all(|b| *b == 0) && bytes.len().is_multiple_of(BLOCK));
                return found;
            }
            found.push((name, mode, bytes[content..content + size].to_vec()));
        }
    }

    #[test]
    fn folders_precede_their_files_and_are_made_automatically() {
        let mut archive = Archive::default();
        archive.put("/lib/x/libc.so", file(b"abc"));
        archive.put("/init", Node::File { content: b"\x7fELF".to_vec(), executable: true });
        archive.put("/dev/console", Node::Device(5, 1));
        let names: Vec<String> = read(&archive.bytes()).into_iter().map(|(n, ..)| n).collect();
        assert_eq!(names, ["dev", "dev/console", "init", "lib", "lib/x", "lib/x/libc.so"]);
        assert!(archive.has("/lib/x") && !archive.has("/lib/y"));
    }

    proptest! {
        #[test]
        fn archived_files_read_back(files in proptest::collection::btree_map("[a-z]{1,9}", proptest::collection::vec(any::<u8>(), 0..40), 0..9)) {
            let mut archive = Archive::default();
            for (name, content) in &files {
                archive.put(&format!("/{name}"), file(content));
            }
            let out: Vec<(String, Vec<u8>)> = read(&archive.bytes()).into_iter().map(|(n, _, c)| (n, c)).collect();
            prop_assert_eq!(out, files.into_iter().collect::<Vec<_>>());
        }
    }
}
