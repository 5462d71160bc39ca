//! What can be planted in the protocol. Its fuzzing target must notice each (`fuzz/tests/planted.rs`).

pub(crate) use planted::planted;

planted::faults! {
    /// The answer to another question is taken for that to this one.
    AnyNumber,
    /// What is longer than a packet is read as one.
    AnyLength,
    /// Descriptors beside an answer that is not this question's are kept.
    KeepsDescriptors,
    /// Another version of the protocol is taken for ours.
    AnyVersion,
    /// A socket is to be bound, and nobody says to which address.
    BindsAnywhere,
}
