//! A client whose keeper is slow.

use super::*;
use crate::place;
use std::time::Duration;

/// Takes the next question.
fn heard(connection: &Fd) -> Packet {
    let mut bytes = [0; LEN];
    let length = sys::socket::receive_descriptors(connection.raw(), &mut bytes, &mut Vec::new(), 0);
    Packet::read(&bytes[..length.unwrap()]).unwrap()
}

fn say(connection: &Fd, answer: Packet) {
    assert_eq!(sys::socket::send(connection.raw(), &answer.bytes(), 0), Ok(LEN));
}

#[test]
fn a_name_that_is_no_keepers_is_told_with_the_reason_and_a_missing_keeper_is_not() {
    let path = |name: &str| Place::Path(name.to_owned());
    for (place, told) in [
        (path("/nonexist"), Some("/nonexist: No such file or directory")),
        (path("/etc/passwd"), Some("/etc/passwd: Connection refused")),
        (path(""), Some(": Invalid argument")),
        (Place::Nowhere, None),
    ] {
        let mut client = Client::new(place);
        assert_eq!(client.repair(0, 1), Err(Error::Absent));
        assert_eq!(client.misnamed().as_deref(), told);
        assert!(!client.is_not_there());
    }
    let mut own = Client::new(Place::Default);
    if own.repair(0, 1) == Err(Error::Absent) {
        assert!(own.is_not_there() && own.misnamed().is_none(), "{}", own.unreached());
    }
    if sys::process::user() == 0 {
        let mut client = Client::new(Place::Start("/nonexist".to_owned()));
        let attached = client.attach(u32::MAX, 0);
        if matches!(attached, Err(Err(Error::Absent))) {
            assert_eq!(client.misnamed().as_deref(), Some("start=/nonexist: there is no such program"));
        }
    }
}

#[test]
fn a_keeper_that_comes_late_is_found_and_one_that_was_there_does_not_come() {
    let path = std::env::temp_dir().join(format!("sidestep-late-keeper-{}", std::process::id()));
    let path = path.to_str().unwrap().to_owned();
    let _ = std::fs::remove_file(&path);
    let mut client = Client::new(Place::Path(path.clone()));
    assert!(!client.comes());
    let door = sys::socket::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0).unwrap();
    sys::socket::bind(door.raw(), &place::address(&path).unwrap()).unwrap();
    sys::socket::listen(door.raw(), 1).unwrap();
    client.failed = None;
    assert!(client.comes() && !client.comes());
    assert!(client.misnamed().is_none());
    drop(door);
    client.failed = None;
    assert!(!client.comes(), "it is gone");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn who_forks_or_looks_for_a_neighbour_does_not_wait_for_an_interface_to_be_opened() {
    let path = std::env::temp_dir().join(format!("sidestep-slow-keeper-{}", std::process::id()));
    let path = path.to_str().unwrap().to_owned();
    let _ = std::fs::remove_file(&path);
    let door = sys::socket::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0).unwrap();
    sys::socket::bind(door.raw(), &place::address(&path).unwrap()).unwrap();
    sys::socket::listen(door.raw(), 1).unwrap();
    configure(Place::Path(path.clone()));
    let opens = std::thread::spawn(|| attach(1, 0).map(|attached| attached.has_policies));
    let connection = sys::socket::accept(door.raw()).unwrap();
    let hello = heard(&connection);
    say(&connection, hello.answered(0));
    let question = heard(&connection);
    assert_eq!((hello.kind, question.kind), (Kind::Hello, Kind::Attach));
    // The thread that asks waits in the kernel by now, or is about to.
    std::thread::sleep(Duration::from_millis(100));
    let forking = fork_begins(sys::clock::now() + LONG_PATIENCE_NS);
    assert!(forking.is_some());
    drop(forking);
    assert_eq!(resolve(1, Ipv4Addr::LOCALHOST), Err(Error::Silent));
    assert!(!opens.is_finished(), "waited for the answer");
    // What has to be asked comes behind.
    let repairs = std::thread::spawn(|| repair(0, 1));
    say(&connection, Packet { detail: 1, ..question.answered(0) });
    assert!(opens.join().unwrap().is_ok_and(|has_policies| has_policies));
    let question = heard(&connection);
    assert_eq!(question.kind, Kind::Repair);
    say(&connection, question.answered(0));
    assert_eq!(repairs.join().unwrap(), Ok(()));
    std::fs::remove_file(&path).unwrap();
}
