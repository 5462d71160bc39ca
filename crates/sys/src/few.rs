//! A list that allocates only when it is long: what a call collects about the few descriptors that it is given.

use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};

/// Elements of a list that stand in the list itself. What is waited for at a time is seldom more.
const FIRST: usize = 12;

/// A list of plain values; up to twelve of them without an allocation.
pub struct Few<T: Copy> {
    first: [MaybeUninit<T>; FIRST],
    /// How many of `first` are written; not counted any more once `all` is in use.
    count: usize,
    /// All elements, once there are more than [`FIRST`].
    all: Vec<T>,
}

impl<T: Copy> Few<T> {
    /// An empty list.
    #[inline]
    pub fn new() -> Few<T> {
        Few { first: [MaybeUninit::uninit(); FIRST], count: 0, all: Vec::new() }
    }

    /// Puts an element at the end.
    #[inline]
    pub fn push(&mut self, element: T) {
        if self.all.is_empty() && self.count < FIRST {
            self.first[self.count].write(element);
            self.count += 1;
        } else {
            self.push_to_all(element);
        }
    }

    #[cold]
    fn push_to_all(&mut self, element: T) {
        if self.all.is_empty() {
            self.all = self.to_vec();
        }
        self.all.push(element);
    }
}

impl<T: Copy> Deref for Few<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        if !self.all.is_empty() {
            return &self.all;
        }
        // SAFETY: `push` has written the first `count`, and T is Copy, so nobody took them out.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr().cast(), self.count) }
    }
}

impl<T: Copy> DerefMut for Few<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        if !self.all.is_empty() {
            return &mut self.all;
        }
        // SAFETY: as in `deref`.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_mut_ptr().cast(), self.count) }
    }
}

impl<T: Copy> Default for Few<T> {
    fn default() -> Few<T> {
        Few::new()
    }
}

impl<T: Copy> Clone for Few<T> {
    fn clone(&self) -> Few<T> {
        self.iter().copied().collect()
    }
}

impl<T: Copy> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Few<T> {
        let mut few = Few::new();
        elements.into_iter().for_each(|element| few.push(element));
        few
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_what_was_put_into_it_however_long() {
        for len in 0..3 * FIRST {
            let mut few: Few<usize> = (0..len).collect();
            let mut wanted: Vec<_> = (0..len).collect();
            assert_eq!(&few[..], &wanted[..]);
            assert_eq!(few.all.is_empty(), len <= FIRST);
            if let Some(last) = few.last_mut() {
                *last = 77;
                wanted[len - 1] = 77;
            }
            assert_eq!(&few.clone()[..], &wanted[..]);
        }
    }
}
