//! Where sockets live: an index that is reused, and a generation that is not.

use crate::SocketId;

/// Sockets of one stack at most: a bound on what a flood of connections can make us allocate.
pub(crate) const SOCKETS_MAX: usize = 1 << 20;

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values by [`SocketId`]. An id of a value that was removed finds nothing.
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }

    /// Takes a value in; `None`: full.
    pub(crate) fn insert(&mut self, value: T) -> Option<SocketId> {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.value = Some(value);
            return Some(SocketId { index, generation: slot.generation });
        }
        if self.slots.len() >= SOCKETS_MAX {
            return None;
        }
        let index = self.slots.len() as u32;
        self.slots.push(Slot { generation: 1, value: Some(value) });
        Some(SocketId { index, generation: 1 })
    }

    #[inline]
    pub(crate) fn get(&self, id: SocketId) -> Option<&T> {
        let slot = self.slots.get(id.index as usize)?;
        if slot.generation == id.generation { slot.value.as_ref() } else { None }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation == id.generation { slot.value.as_mut() } else { None }
    }

    /// Takes a value out; its id finds nothing from now on.
    pub(crate) fn remove(&mut self, id: SocketId) -> Option<T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.index);
        Some(value)
    }

    /// Every id that finds a value, in order of index.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SocketId> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.value.is_some())
            .map(|(index, slot)| SocketId { index: index as u32, generation: slot.generation })
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_a_removed_value_never_finds_its_successor() {
        let mut slab = Slab::new();
        let first = slab.insert("first").unwrap();
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second").unwrap();
        assert_eq!(first.index, second.index);
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&"second")));
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.len(), 1);
        assert!(slab.ids().eq([second]));
    }
}
