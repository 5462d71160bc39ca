//! What is steered already when IPsec policies change: connections that one could select move into the kernel, or end
//! where they cannot. By the background thread; `policies.rs` has the policies.

use crate::answer::Why;
use crate::expel::expel;
use crate::fd_table;
use crate::object::{Kind, Object, Pin};
use crate::offload;
use crate::runtime::Runtime;
use crate::tcp;

/// Looks whether policies changed.
pub(crate) fn follow(runtime: &'static Runtime) {
    let Some(has_some) = runtime.policies.have_changed() else { return };
    runtime.forget_routes();
    if has_some {
        enforce(runtime);
    }
}

/// What is steered here and a policy could select goes to the kernel.
fn enforce(runtime: &'static Runtime) {
    for fd in 0..fd_table::end() {
        let Some(object) = fd_table::socket(fd) else { continue };
        let Some(_pin) = Pin::by(object, fd) else { continue };
        if object.leg().is_none() || !is_selected(runtime, object) {
            continue;
        }
        if !expel(runtime, object, Why::Ipsec) {
            logger::warning!(
                "fd {fd}: an IPsec policy selects this connection, which cannot move into the kernel: it ends"
            );
            tcp::detach(object);
            offload::forget(runtime, object, Why::Ipsec);
        }
    }
    // What closed sockets have still to say.
    for lane in runtime.lanes() {
        let selected: Vec<_> = {
            let inner = lane.lock();
            let ids = inner.orphans.iter().map(|orphan| orphan.id);
            let ends = ids.map(|id| (id, inner.stack.local(id), inner.stack.remote(id)));
            let of = |end: Option<stack::Endpoint>| end.map(|end| *end.ip());
            ends.filter(|(_, local, remote)| runtime.policies.could_select(of(*local), of(*remote))).collect()
        };
        selected.into_iter().for_each(|(id, ..)| tcp::abort(lane, id));
    }
}

fn is_selected(runtime: &Runtime, object: &Object) -> bool {
    let (local, remote) = {
        let control = object.control.lock();
        (control.local, control.remote)
    };
    let local = local.map(|local| *local.ip()).filter(|local| !local.is_unspecified());
    let remote = remote.map(|remote| *remote.ip());
    match (object.kind(), local) {
        // Of all its addresses.
        (Kind::Listener | Kind::Udp, None) => {
            let mut addresses = object.legs().flat_map(|(lane, _)| lane.lock().addresses.clone());
            addresses.any(|address| runtime.policies.could_select(Some(address), remote))
        }
        _ => runtime.policies.could_select(local, remote),
    }
}
