//! How many processes have a connection that the kernel carries: who has it alone may take it to a lane of its own.
//!
//! A fork gives the child all connections of its parent. Each gets a word of memory that both share, which counts those
//! who have it; close and exit take one off. A process that is killed, or replaced by exec, takes nothing off: the
//! connection then stays the kernel's, which is right in any case.

use super::Object;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

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

/// Before a fork, by the one thread that forks: the child will have the connection, too. False: that cannot be counted.
pub(crate) fn share(object: &Object) -> bool {
    let Some(words) = words().or_else(make) else { return false };
    let known = object.holders_word.load(Ordering::Relaxed) as usize;
    if known != 0 {
        words[known].fetch_add(1, Ordering::AcqRel);
        return true;
    }
    let free = |word: &AtomicU32| word.compare_exchange(0, 2, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    match (1..WORDS).find(|at| free(&words[*at])) {
        Some(at) => {
            object.holders_word.store(at as u32, Ordering::Relaxed);
            true
        }
        None => false,
    }
}

/// Whether this process has the connection alone, as far as is known.
#[inline]
pub(crate) fn is_alone(object: &Object) -> bool {
    match object.holders_word.load(Ordering::Relaxed) as usize {
        0 => true,
        at => words().is_some_and(|words| words[at].load(Ordering::Acquire) == 1),
    }
}

/// This process has no descriptor of it any more.
pub(crate) fn leave(object: &Object) {
    let at = object.holders_word.swap(0, Ordering::Relaxed) as usize;
    if at != 0
        && let Some(words) = words()
    {
        words[at].fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;

    #[test]
    fn who_is_left_has_it_alone() {
        let object = Object::new(Kind::Carried, 900_010, false);
        assert!(is_alone(object));
        assert!(share(object) && !is_alone(object));
        let at = object.holders_word.load(Ordering::Relaxed) as usize;
        // The child closes it.
        words().unwrap()[at].fetch_sub(1, Ordering::AcqRel);
        assert!(is_alone(object));
        assert!(share(object) && !is_alone(object));
        leave(object);
        assert_eq!(words().unwrap()[at].load(Ordering::Relaxed), 1, "the child has it");
        words().unwrap()[at].store(0, Ordering::Relaxed);
        object.release();
    }
}
