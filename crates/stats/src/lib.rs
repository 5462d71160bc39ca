//! Counters: declaration, layout in given memory, writer and reader.
