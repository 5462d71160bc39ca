//! A bounded table whose users remember where in it their entry was.

use ahash::RandomState;
use core::hash::Hash;
use std::collections::HashMap;

struct Slot<K, T> {
    key: K,
    used: bool,
    value: T,
}

/// Entries by key. Beyond `max`, an entry that was not used lately makes room (CLOCK).
pub(crate) struct Cache<K, T> {
    slots: Vec<Slot<K, T>>,
    index: HashMap<K, u32, RandomState>,
    hand: usize,
    max: usize,
}

impl<K: Copy + Eq + Hash, T> Cache<K, T> {
    pub(crate) fn new(max: usize, hasher: RandomState) -> Self {
        Cache { slots: Vec::new(), index: HashMap::with_hasher(hasher), hand: 0, max }
    }

    /// Where the entry of `key` is. `hint` is where it was last time; without a change no hash is computed.
    #[inline(always)]
    pub(crate) fn find(&mut self, key: K, hint: u32) -> Option<u32> {
        match self.slots.get_mut(hint as usize) {
            Some(slot) if slot.key == key => {
                slot.used = true;
                Some(hint)
            }
            _ => self.look_up(key),
        }
    }

    #[inline(never)]
    fn look_up(&mut self, key: K) -> Option<u32> {
        let at = *self.index.get(&key)?;
        self.slots[at as usize].used = true;
        Some(at)
    }

    /// The entry at a place that [`Cache::find`] or [`Cache::insert`] just told.
    #[inline]
    pub(crate) fn at(&mut self, at: u32) -> &mut T {
        &mut self.slots[at as usize].value
    }

    /// Takes an entry in for a key that has none. `pinned` says which entries must stay; `None`: all must.
    pub(crate) fn insert(&mut self, key: K, value: T, pinned: impl Fn(&T) -> bool) -> Option<u32> {
        let slot = Slot { key, used: true, value };
        let at = if self.slots.len() < self.max {
            self.slots.push(slot);
            self.slots.len() - 1
        } else {
            let at = self.victim(pinned)?;
            self.index.remove(&self.slots[at].key);
            self.slots[at] = slot;
            at
        };
        self.index.insert(key, at as u32);
        Some(at as u32)
    }

    /// Whether there is an entry of `key`; to look does not count as use.
    pub(crate) fn has(&self, key: K) -> bool {
        self.index.contains_key(&key)
    }

    /// Every entry with its key, and whether it was used since that was cleared.
    pub(crate) fn iter_used(&mut self) -> impl Iterator<Item = (K, &mut T, &mut bool)> {
        self.slots.iter_mut().map(|slot| (slot.key, &mut slot.value, &mut slot.used))
    }

    /// Every entry with its key.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut T)> {
        self.slots.iter_mut().map(|slot| (slot.key, &mut slot.value))
    }

    fn victim(&mut self, pinned: impl Fn(&T) -> bool) -> Option<usize> {
        for _ in 0..2 * self.slots.len() {
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[self.hand];
            if !core::mem::take(&mut slot.used) && !pinned(&slot.value) {
                return Some(self.hand);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> u32 {
        n
    }

    fn cache() -> Cache<u32, u32> {
        let mut cache = Cache::new(4, RandomState::with_seeds(1, 2, 3, 4));
        for n in 0..4 {
            assert_eq!(cache.insert(key(n), n, |_| false), Some(n));
        }
        cache
    }

    #[test]
    fn full_table_gives_up_an_entry_that_was_not_used() {
        let mut cache = cache();
        cache.insert(key(4), 4, |_| false).unwrap();
        let missing: Vec<u32> = (0..5).filter(|n| cache.find(key(*n), 0).is_none()).collect();
        assert_eq!(missing.len(), 1);
        assert_ne!(missing[0], 4);
    }

    #[test]
    fn stale_hint_still_finds_the_entry() {
        let mut cache = cache();
        for hint in [0, 3, 99] {
            let at = cache.find(key(2), hint).unwrap();
            assert_eq!(*cache.at(at), 2);
        }
    }

    #[test]
    fn pinned_entries_stay() {
        let mut cache = cache();
        assert_eq!(cache.insert(key(9), 9, |_| true), None);
        assert_eq!(cache.insert(key(9), 9, |value| *value != 1), Some(1));
        assert!(cache.find(key(1), 1).is_none());
    }
}
