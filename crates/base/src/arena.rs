//! Arenas: items that live as long as a run, indexed by their own kind of id. `tasks[cpu]` does not compile. An
//! [`Arena`] reads as a slice (`len`, `iter`, `get`), but only its own id indexes it.

use serde::{Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut};

/// An index into an arena.
pub trait Id: Copy {
    fn at(self) -> usize;
    /// Arenas are far smaller than 2^32 entries.
    fn of(at: usize) -> Self;
}

/// Items of one kind, each with an id of type `I`.
pub struct Arena<I, T> {
    items: Vec<T>,
    id: PhantomData<fn(I) -> I>,
}

impl<I: Id, T> Arena<I, T> {
    pub fn new() -> Arena<I, T> {
        Arena::from(Vec::new())
    }
    /// `n` copies of `item`.
    pub fn filled(item: T, n: usize) -> Arena<I, T>
    where
        T: Clone,
    {
        Arena::from(vec![item; n])
    }
    pub fn push(&mut self, item: T) -> I {
        let id = I::of(self.items.len());
        self.items.push(item);
        id
    }
    pub fn ids(&self) -> impl Iterator<Item = I> + Clone + use<I, T> {
        (0..self.items.len()).map(I::of)
    }
}

impl<I: Id, T> Index<I> for Arena<I, T> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.at()]
    }
}

impl<I: Id, T> IndexMut<I> for Arena<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.at()]
    }
}

impl<I, T> Deref for Arena<I, T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<I, T> DerefMut for Arena<I, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl<I, T> From<Vec<T>> for Arena<I, T> {
    fn from(items: Vec<T>) -> Arena<I, T> {
        Arena { items, id: PhantomData }
    }
}

impl<I: Id, T> FromIterator<T> for Arena<I, T> {
    fn from_iter<It: IntoIterator<Item = T>>(items: It) -> Arena<I, T> {
        Arena::from(items.into_iter().collect::<Vec<T>>())
    }
}

impl<'a, I, T> IntoIterator for &'a Arena<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<I, T> IntoIterator for Arena<I, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<I, T> Default for Arena<I, T> {
    fn default() -> Arena<I, T> {
        Arena::from(Vec::new())
    }
}

impl<I, T: Clone> Clone for Arena<I, T> {
    fn clone(&self) -> Arena<I, T> {
        Arena::from(self.items.clone())
    }
}

impl<I, T: PartialEq> PartialEq for Arena<I, T> {
    fn eq(&self, other: &Arena<I, T>) -> bool {
        self.items == other.items
    }
}

impl<I, T: fmt::Debug> fmt::Debug for Arena<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.fmt(f)
    }
}

impl<I, T: Eq> Eq for Arena<I, T> {}

impl<I, T: Serialize> Serialize for Arena<I, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.items.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuId, TaskId};

    #[test]
    fn an_item_is_found_by_its_id() {
        let mut names: Arena<TaskId, &str> = Arena::new();
        let (a, b) = (names.push("a"), names.push("b"));
        assert_eq!((a, b), (TaskId(0), TaskId(1)));
        names[b] = "c";
        assert_eq!((names[a], names[b], names.len()), ("a", "c", 2));
    }

    #[test]
    fn ids_come_in_order() {
        let idle: Arena<CpuId, bool> = Arena::filled(true, 3);
        assert_eq!(idle.ids().collect::<Vec<_>>(), [CpuId(0), CpuId(1), CpuId(2)]);
    }
}
