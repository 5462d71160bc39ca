//! Reassembly against orderly, disorderly and hostile fragments.
