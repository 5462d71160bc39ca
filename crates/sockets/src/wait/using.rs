//! Sockets that calls are waiting on: closing the last descriptor of one takes effect when the last such call returns, as
//! in the kernel, where a call holds the file.

use crate::calls;
use crate::object::Object;
use core::sync::atomic::Ordering;
use std::cell::RefCell;

thread_local! {
    /// What this thread's calls wait on. A handler that leaves a call by siglongjmp leaves its entries behind; they are
    /// found when this thread closes the socket.
    static USING: RefCell<Vec<&'static Object>> = const { RefCell::new(Vec::new()) };
}

/// Calls of this thread wait on these sockets until it is dropped.
pub(super) struct Using<'a>(&'a [&'static Object]);

impl<'a> Using<'a> {
    pub(super) fn begin(objects: &'a [&'static Object]) -> Using<'a> {
        // At the thread's very end there is no list any more, and the call goes without.
        if USING.try_with(|using| using.borrow_mut().extend_from_slice(objects)).is_err() {
            return Using(&[]);
        }
        for object in objects {
            object.users.fetch_add(1, Ordering::SeqCst);
        }
        Using(objects)
    }
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        for object in self.0 {
            let known = USING.try_with(|using| {
                let mut using = using.borrow_mut();
                let at = using.iter().rposition(|known| core::ptr::eq(*known, *object));
                at.map(|at| using.swap_remove(at)).is_some()
            });
            if known == Ok(true)
                && object.users.fetch_sub(1, Ordering::SeqCst) == 1
                && object.ending.swap(false, Ordering::SeqCst)
            {
                calls::end_deferred(object);
            }
        }
    }
}

/// The calling thread closes `object`: it is not waiting on it, whatever a handler left behind.
pub(crate) fn forget(object: &Object) {
    let stale = USING.try_with(|using| {
        let mut using = using.borrow_mut();
        let before = using.len();
        using.retain(|known| !core::ptr::eq(*known, object));
        before - using.len()
    });
    let stale = stale.unwrap_or(0);
    object.users.fetch_sub(stale as u32, Ordering::SeqCst);
}
