//! How many processes have a connection that the kernel carries: who has it alone may take it to a lane of its own.
//!
//! A fork gives the child all connections of its parent. Each gets a word of memory that both share, which counts those
//! who have it; close and exit take one off, and so does exec for what it closes. What another program gets is nobody's
//! alone any more, as nothing is seen of it there ([`LOST`]). A process that is killed takes nothing off: the
//! connection then stays the kernel's, which is right in any case.

use super::Object;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Connections that are shared at a time; those beyond stay in the kernel.
const WORDS: usize = 4096;

/// Shared with all children; null before the first fork with a connection. Word 0 is nobody's.
static SHARED: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

fn words() -> Option<&'static [AtomicU32]> {
    let first = SHARED.load(Ordering::Acquire);
    // SAFETY: null, or a mapping of so many words that is never unmapped.
    (!first.is_null()).then(|| unsafe { core::slice::from_raw_parts(first, WORDS) })
}

fn make() -> Option<&'static [AtomicU32]> {
    let mapping = sys::memory::Mapping::shared_with_children(WORDS * size_of::<AtomicU32>()).ok()?;
    SHARED.store(mapping.start().as_ptr().cast(), Ordering::Release);
    // For as long as the process lives.
    core::mem::forget(mapping);
    words()
}

/// Somebody has the connection, or had it, who takes nothing off.
const LOST: u32 = 1 << 31;

/// Where the search for a word begins that is nobody's: behind the one that was found last.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// What one fork shares, by the one thread that forks.
#[derive(Default)]
pub(crate) struct Sharing {
    /// No word is left: nobody else looks for one.
    is_full: bool,
    /// Words that were looked at.
    looked: usize,
}

impl Sharing {
    /// The child will have the connection, too. False: that cannot be counted.
    pub(crate) fn share(&mut self, object: &Object) -> bool {
        let Some(words) = words().or_else(make) else { return false };
        let known = object.holders_word.load(Ordering::Relaxed) as usize;
        if known != 0 {
            words[known].fetch_add(1, Ordering::AcqRel);
            return true;
        }
        let found = self.find(words);
        if let Some(at) = found {
            // Before the kind is looked at: who moves it says so by the kind, then looks here.
            object.holders_word.swap(at as u32, Ordering::SeqCst);
        }
        found.is_some()
    }

    fn find(&mut self, words: &[AtomicU32]) -> Option<usize> {
        if self.is_full {
            return None;
        }
        let first = NEXT.load(Ordering::Relaxed);
        let found = (first..WORDS).chain(1..first).find(|at| {
            self.looked += 1;
            let word = &words[*at];
            word.load(Ordering::Relaxed) == 0
                && word.compare_exchange(0, 2, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        self.is_full = found.is_none();
        NEXT.store(found.map_or(1, |at| at % (WORDS - 1) + 1), Ordering::Relaxed);
        found
    }
}

/// Whether this process has the connection alone, as far as is known.
#[inline]
pub(crate) fn is_alone(object: &Object) -> bool {
    match object.holders_word.load(Ordering::SeqCst) as usize {
        0 => true,
        at => words().is_some_and(|words| words[at].load(Ordering::Acquire) == 1),
    }
}

/// Whether others may have it, too, who count themselves.
pub(crate) fn is_counted(object: &Object) -> bool {
    object.holders_word.load(Ordering::Relaxed) != 0
}

/// This process has no descriptor of it any more.
pub(crate) fn leave(object: &Object) {
    take_off(object, 0);
}

/// Another program has this process's descriptors of it from now on.
pub(crate) fn lose(object: &Object) {
    take_off(object, LOST);
}

fn take_off(object: &Object, mark: u32) {
    let at = object.holders_word.swap(0, Ordering::Relaxed) as usize;
    if at != 0
        && let Some(words) = words()
    {
        words[at].fetch_or(mark, Ordering::AcqRel);
        if words[at].fetch_sub(1, Ordering::AcqRel) == LOST | 1 {
            // Nobody is left who would ask.
            let _ = words[at].compare_exchange(LOST, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;

    fn word(at: usize) -> u32 {
        words().unwrap()[at].load(Ordering::Relaxed)
    }

    /// The words are the process's: one test at a time uses them.
    static WORDS_USED: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn who_is_left_has_it_alone() {
        let _used = WORDS_USED.lock().unwrap();
        let object = Object::new(Kind::Carried, 900_010, false);
        let mut sharing = Sharing::default();
        assert!(is_alone(object));
        assert!(sharing.share(object) && !is_alone(object));
        let at = object.holders_word.load(Ordering::Relaxed) as usize;
        // The child closes it.
        words().unwrap()[at].fetch_sub(1, Ordering::AcqRel);
        assert!(is_alone(object));
        assert!(sharing.share(object) && !is_alone(object));
        leave(object);
        assert_eq!(word(at), 1, "the child has it");
        words().unwrap()[at].store(0, Ordering::Relaxed);
        object.release();
    }

    #[test]
    fn what_another_program_has_is_nobodys_alone_and_its_word_is_free_with_the_last_who_asks() {
        let _used = WORDS_USED.lock().unwrap();
        let object = Object::new(Kind::Carried, 900_012, false);
        assert!(Sharing::default().share(object));
        let at = object.holders_word.load(Ordering::Relaxed);
        // In the child, which goes on as another program.
        lose(object);
        object.holders_word.store(at, Ordering::Relaxed);
        assert!(!is_alone(object));
        leave(object);
        assert_eq!(word(at as usize), 0);
        object.release();
    }

    #[test]
    fn a_fork_looks_at_each_word_once_however_many_connections_there_are() {
        let _used = WORDS_USED.lock().unwrap();
        let objects: Vec<_> = (0..10_000).map(|_| Object::new(Kind::Carried, 900_013, false)).collect();
        let mut sharing = Sharing::default();
        let shared = objects.iter().filter(|object| sharing.share(object)).count();
        assert!(shared == WORDS - 1 && sharing.looked < 2 * WORDS, "{shared}, {}", sharing.looked);
        // Another one, of a process that has closed some.
        objects.iter().for_each(|object| leave(object));
        words().unwrap().iter().for_each(|word| word.store(0, Ordering::Relaxed));
        let mut sharing = Sharing::default();
        assert!(objects[..1000].iter().all(|object| sharing.share(object)));
        assert!(sharing.looked <= 1000, "{}", sharing.looked);
        objects.iter().for_each(|object| leave(object));
        words().unwrap().iter().for_each(|word| word.store(0, Ordering::Relaxed));
        objects.into_iter().for_each(Object::release);
    }
}
