//! A certificate for one run: an ECDSA key on P-256 and its self-signed X.509 certificate (RFC 5280), written by hand,
//! because a library for it would be four times what is here.
//!
//! Nobody verifies it. Whoever wants to look sees `CN=sockperf` and a time that has no end (RFC 5280, 4.1.2.5).

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const UTF8_STRING: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[0] EXPLICIT`, which holds the version.
const VERSION: u8 = 0xa0;

/// OBJECT IDENTIFIER commonName (2.5.4.3).
const COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 4, 3];
/// OBJECT IDENTIFIER ecdsa-with-SHA256 (1.2.840.10045.4.3.2).
const ECDSA_WITH_SHA256: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
/// OBJECT IDENTIFIER id-ecPublicKey (1.2.840.10045.2.1).
const EC_PUBLIC_KEY: &[u8] = &[0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
/// OBJECT IDENTIFIER secp256r1 (1.2.840.10045.3.1.7).
const SECP256R1: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];

/// The certificate and the key's PKCS #8 form. `None` when the system has no random numbers.
pub fn make() -> Option<(Vec<u8>, Vec<u8>)> {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).ok()?;
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random).ok()?;
    let body = body(key.public_key().as_ref());
    let signature = key.sign(&random, &body).ok()?;
    let certificate = sequence(&[&body, &sequence(&[ECDSA_WITH_SHA256]), &bit_string(signature.as_ref())]);
    Some((certificate, pkcs8.as_ref().to_vec()))
}

/// TBSCertificate: what is signed.
fn body(public_key: &[u8]) -> Vec<u8> {
    let common_name = sequence(&[COMMON_NAME, &element(UTF8_STRING, b"sockperf")]);
    let name = sequence(&[&element(SET, &common_name)]);
    let validity =
        sequence(&[&element(UTC_TIME, b"700101000000Z"), &element(GENERALIZED_TIME, b"99991231235959Z")]);
    let algorithm = sequence(&[EC_PUBLIC_KEY, SECP256R1]);
    sequence(&[
        &element(VERSION, &element(INTEGER, &[2])),
        &element(INTEGER, &[1]),
        &sequence(&[ECDSA_WITH_SHA256]),
        &name,
        &validity,
        &name,
        &sequence(&[&algorithm, &bit_string(public_key)]),
    ])
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, &parts.concat())
}

/// A string of whole bytes.
fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes].concat())
}

/// One element of DER: tag, length, contents of less than 64 KiB.
fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = match contents.len() {
        n @ ..0x80 => vec![n as u8],
        n @ ..0x100 => vec![0x81, n as u8],
        n => vec![0x82, (n >> 8) as u8, n as u8],
    };
    [&[tag], &length[..], contents].concat()
}
