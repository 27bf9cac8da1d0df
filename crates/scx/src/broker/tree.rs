//! Files of the simulated machine, in memory: what a program is shown of /sys and /proc. Nothing of it is on a disk, so
//! nothing is left of a run that is killed, and folders have one order on all machines.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// A link that leads to links: so many in turn, as in a kernel.
const MOST_LINKS: u32 = 40;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    Folder(BTreeMap<String, Node>),
    File(Vec<u8>),
    /// To a path that begins in the link's own folder, or at the root.
    Link(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    root: Node,
    /// Inode numbers that mean something, by path.
    inodes: BTreeMap<PathBuf, u64>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { root: Node::Folder(BTreeMap::new()), inodes: BTreeMap::new() }
    }
}

/// Names of a path below the root, without `.` and `..`.
fn names(path: &Path) -> Vec<&str> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.extend(name.to_str()),
            Component::ParentDir => drop(names.pop()),
            _ => {}
        }
    }
    names
}

impl Tree {
    /// Puts a file or a link at a path, and folders on the way.
    pub fn put(&mut self, path: &str, node: Node) {
        let mut at = &mut self.root;
        for name in names(Path::new(path)) {
            if !matches!(at, Node::Folder(_)) {
                *at = Node::Folder(BTreeMap::new());
            }
            let Node::Folder(inside) = at else { return };
            at = inside.entry(name.to_owned()).or_insert_with(|| Node::Folder(BTreeMap::new()));
        }
        *at = node;
    }
    /// What is at a path, which may go through links. Its last name may be a link that is not followed.
    pub fn find(&self, path: &Path, follow: bool) -> Option<&Node> {
        let mut links = 0;
        let mut path = path.to_owned();
        'again: loop {
            let (names, mut at) = (names(&path), &self.root);
            for (depth, name) in names.iter().enumerate() {
                let Node::Folder(inside) = at else { return None };
                at = inside.get(*name)?;
                if let Node::Link(to) = at
                    && (follow || depth + 1 < names.len())
                {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    let mut next: PathBuf = Path::new("/").join(names[..depth].join("/"));
                    next.push(to);
                    next.extend(&names[depth + 1..]);
                    path = next;
                    continue 'again;
                }
            }
            return Some(at);
        }
    }
    /// A number for the file at a path, the same in each run: one that it was given, or FNV-1a of its path.
    pub fn inode(&self, path: &Path) -> u64 {
        let bytes = path.as_os_str().as_encoded_bytes();
        let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.inodes.get(path).copied().unwrap_or_else(|| bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash))
    }
    pub fn set_inode(&mut self, path: &str, number: u64) {
        self.inodes.insert(Path::new("/").join(path), number);
    }
    /// The content of a file.
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        match self.find(Path::new(path), true)? {
            Node::File(bytes) => Some(bytes),
            Node::Folder(_) | Node::Link(_) => None,
        }
    }
}

/// `d_type` of getdents64(2).
fn kind(node: &Node) -> u8 {
    match node {
        Node::Folder(_) => libc::DT_DIR,
        Node::File(_) => libc::DT_REG,
        Node::Link(_) => libc::DT_LNK,
    }
}

/// Where the name begins in a record of getdents64(2).
const NAME_AT: usize = 19;

/// A folder as getdents64(2) gives it: records, of which each says where the next one begins.
pub fn records(tree: &Tree, path: &Path, inside: &BTreeMap<String, Node>) -> Vec<u8> {
    let own = [(".", libc::DT_DIR), ("..", libc::DT_DIR)];
    let all = own.into_iter().chain(inside.iter().map(|(name, node)| (name.as_str(), kind(node))));
    let mut bytes = Vec::new();
    for (name, kind) in all {
        let length = (NAME_AT + name.len() + 1).next_multiple_of(8);
        let next = bytes.len() + length;
        bytes.extend(tree.inode(&path.join(name)).to_le_bytes());
        bytes.extend((next as u64).to_le_bytes());
        bytes.extend((length as u16).to_le_bytes());
        bytes.push(kind);
        bytes.extend(name.as_bytes());
        bytes.resize(next, 0);
    }
    bytes
}

/// Whole records at the beginning of `bytes`, of at most so many bytes.
pub fn whole_records(bytes: &[u8], most: usize) -> &[u8] {
    let mut end = 0;
    while let Some(length) = bytes.get(end + 16..end + 18) {
        let next = end + usize::from(u16::from_le_bytes([length[0], length[1]]));
        if next > most || next > bytes.len() || next <= end {
            break;
        }
        end = next;
    }
    &bytes[..end]
}

/// Bytes of a file that says so much: what stat(2) shows.
pub fn size(node: &Node) -> usize {
    match node {
        Node::Folder(_) => 0,
        Node::File(bytes) => bytes.len(),
        Node::Link(to) => to.len(),
    }
}
