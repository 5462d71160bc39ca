//! Both sides of a session in memory: every cipher, every way the wire can cut the records, damage, and new keys.

use super::*;
use rustls::Tls13CipherSuite;

/// Two sessions, and what is on the wire between them.
struct Pair {
    client: Session,
    server: Session,
    cut: usize,
}

impl Pair {
    fn new(cipher: &str, cut: usize) -> Pair {
        let side = |mode| Tls::new(mode, cipher).unwrap().session().unwrap();
        Pair::of(side(Mode::PingPong), side(Mode::Server), cut)
    }

    fn of(client: Session, server: Session, cut: usize) -> Pair {
        let pair = Pair { client, server, cut };
        let mut hello = Vec::new();
        pair.client.open(&[], &mut [], &mut |bytes| hello.extend(bytes)).unwrap();
        let (mut to_server, mut turns) = (hello, 0);
        while !to_server.is_empty() && turns < 10 {
            let (nothing, to_client) = carry(&pair.server, &to_server, pair.cut).unwrap();
            assert!(nothing.is_empty());
            to_server = carry(&pair.client, &to_client, pair.cut).unwrap().1;
            turns += 1;
        }
        assert!(pair.client.is_established() && pair.server.is_established());
        pair
    }

    /// Sends `message` and returns what came out on the other side.
    fn across(&self, from_client: bool, message: &[u8]) -> Vec<u8> {
        let (from, to) =
            if from_client { (&self.client, &self.server) } else { (&self.server, &self.client) };
        let mut room = Outgoing::default();
        let wire = from.seal(message, &mut room).unwrap().to_vec();
        let (plain, answer) = carry(to, &wire, self.cut).unwrap();
        assert!(answer.is_empty(), "an established session speaks with its messages only");
        plain
    }
}

/// Hands `wire` to `to` in pieces of `cut` bytes; what it decrypts to, and what it answers.
fn carry(to: &Session, wire: &[u8], cut: usize) -> std::io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut plain, mut answer) = (Vec::new(), Vec::new());
    let mut space = vec![0; RECORDS];
    let mut rest = wire;
    while !rest.is_empty() {
        let n = cut.min(rest.len()).min(to.room());
        assert!(n > 0, "a session must always have room");
        let got = to.open(&rest[..n], &mut space, &mut |bytes| answer.extend(bytes))?;
        plain.extend(&space[..got]);
        rest = &rest[n..];
    }
    Ok((plain, answer))
}

fn message(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i * 7) as u8).collect()
}

#[test]
fn every_cipher_a_server_can_do_carries_messages_both_ways() {
    for (cipher, _) in CIPHERS.iter().filter(|(name, _)| !name.starts_with("ECDHE-RSA")) {
        let pair = Pair::new(cipher, usize::MAX);
        for size in [14, 1472, 16_384, 16_385, 65_507, 1_048_575] {
            assert_eq!(pair.across(true, &message(size)), message(size), "{cipher} {size}");
            assert_eq!(pair.across(false, &message(size)), message(size), "{cipher} {size}");
        }
        let version = if cipher.starts_with("TLS_") { "TLSv1.3 " } else { "TLSv1.2 " };
        let said = pair.client.description();
        let name = said.strip_prefix(version).unwrap_or_else(|| panic!("{cipher}: {said}"));
        assert!(name.ends_with(cipher), "{cipher}: {said}");
        assert_eq!(pair.server.description(), said);
    }
}

#[test]
fn records_may_come_in_pieces_of_any_size() {
    for cipher in ["AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256"] {
        for cut in [1, 2, 5, 17, 1000, 14_331, 20_000] {
            let pair = Pair::new(cipher, cut);
            for size in [14, 40_000] {
                assert_eq!(pair.across(true, &message(size)), message(size), "{cipher} {cut} {size}");
            }
        }
    }
}

#[test]
fn a_changed_byte_ends_the_session_with_an_alert() {
    for cipher in ["AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256"] {
        for at in [0, 1, 4, 5, 20, 40] {
            let pair = Pair::new(cipher, usize::MAX);
            let mut room = Outgoing::default();
            let mut wire = pair.client.seal(&message(40), &mut room).unwrap().to_vec();
            wire[at] ^= 0x80;
            // Twice the length, so that a record claimed to be longer is whole.
            wire.extend(vec![0; 20_000]);
            let mut said: Vec<u8> = Vec::new();
            let mut space = vec![0; RECORDS];
            let failed = pair.server.open(&wire, &mut space, &mut |bytes| said.extend(bytes));
            assert_eq!(failed.unwrap_err().kind(), std::io::ErrorKind::InvalidData, "{cipher} {at}");
            assert!(!said.is_empty(), "{cipher} {at}: no alert");
            let again = pair.server.open(&[], &mut space, &mut |_| {});
            assert!(again.is_err(), "{cipher} {at}: a broken session goes on");
            assert!(pair.server.seal(&message(14), &mut room).is_none(), "{cipher} {at}");
        }
    }
}

#[test]
fn garbage_in_the_place_of_a_handshake_is_refused() {
    let wire = message(3000);
    for first in [0u8, 0x16, 0x17, b'G', 0xff] {
        let mut wire = wire.clone();
        wire[0] = first;
        let server = Tls::new(Mode::Server, DEFAULT_CIPHER).unwrap().session().unwrap();
        let mut space = vec![0; RECORDS];
        assert!(server.open(&wire, &mut space, &mut |_| {}).is_err(), "{first}");
    }
}

#[test]
fn a_handshake_that_never_ends_is_refused_when_the_room_is_full() {
    let server = Tls::new(Mode::Server, DEFAULT_CIPHER).unwrap().session().unwrap();
    // Records of a ClientHello that says it has 16 MiB.
    let mut record = vec![0x16, 3, 3, 0x10, 0x00];
    record.extend([1, 0xff, 0xff, 0xff]);
    record.resize(5 + 0x1000, 0);
    let mut outcome = Ok(());
    for _ in 0..20 {
        outcome = carry(&server, &record[..record.len().min(server.room())], usize::MAX).map(|_| ());
        if outcome.is_err() {
            break;
        }
        record[5..].fill(0);
    }
    assert!(outcome.is_err());
}

#[test]
fn goodbye_ends_the_session_but_not_one_that_lost_records() {
    for cipher in ["AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256"] {
        let pair = Pair::new(cipher, usize::MAX);
        let mut room = Outgoing::default();
        let last = pair.client.goodbye(&mut room).to_vec();
        assert!(!pair.server.is_finished());
        assert_eq!(carry(&pair.server, &last, usize::MAX).unwrap(), (vec![], vec![]));
        assert!(pair.server.is_finished());
        pair.server.abandon();
        assert!(pair.server.goodbye(&mut room).is_empty());
    }
}

#[test]
fn tls_1_2_does_not_end_after_many_records() {
    let suites = Tls::new(Mode::PingPong, DEFAULT_CIPHER).unwrap();
    let Role::Client(config) = suites.role else { panic!("a client") };
    for suite in &config.crypto_provider().cipher_suites {
        let SupportedCipherSuite::Tls12(suite) = suite else { panic!("{suite:?}") };
        assert_eq!(suite.common.confidentiality_limit, u64::MAX);
    }
}

#[test]
fn tls_1_3_changes_its_keys_in_between() {
    let SupportedCipherSuite::Tls13(suite) = known::TLS13_AES_128_GCM_SHA256 else { panic!("1.3") };
    let soon: &'static Tls13CipherSuite = Box::leak(Box::new(Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: suite.common.suite,
            hash_provider: suite.common.hash_provider,
            confidentiality_limit: 5,
        },
        hkdf_provider: suite.hkdf_provider,
        aead_alg: suite.aead_alg,
        quic: None,
    }));
    let side = |mode| {
        let role = role(mode, vec![SupportedCipherSuite::Tls13(soon)]).unwrap();
        Tls { cipher: "", role }.session().unwrap()
    };
    let pair = Pair::of(side(Mode::PingPong), side(Mode::Server), usize::MAX);
    let mut longest = 0;
    for turn in 0..100 {
        let mut room = Outgoing::default();
        let wire = pair.client.seal(&message(14), &mut room).unwrap().to_vec();
        longest = longest.max(wire.len());
        assert_eq!(carry(&pair.server, &wire, usize::MAX).unwrap().0, message(14), "{turn}");
        if turn % 3 == 0 {
            assert_eq!(pair.across(false, &message(20)), message(20), "{turn}");
        }
    }
    assert!(longest > 14 + 5 + 17, "no key was changed");
}
