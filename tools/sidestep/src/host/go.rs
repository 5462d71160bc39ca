//! Whether a program was built by Go, which calls the kernel past libc.

/// What Go's linker leaves: 0xff and " Go buildinf:". Backwards, as this tool's own program is looked at, too, and
/// would have the words wherever its own linker puts them.
const MARK_BACKWARDS: &[u8] = b":fnidliub oG \xff";

/// Whether `bytes`, a program's file from its beginning, have the mark, which stands at a multiple of 16.
pub(crate) fn built(bytes: &[u8]) -> bool {
    bytes.chunks_exact(16).any(|chunk| chunk[..MARK_BACKWARDS.len()].iter().rev().eq(MARK_BACKWARDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_counts_where_go_puts_it_and_not_in_this_program() {
        let mark: Vec<u8> = MARK_BACKWARDS.iter().rev().copied().collect();
        let at = |place: usize| [&vec![0; place][..], &mark, &[0; 32]].concat();
        assert!(built(&at(0)) && built(&at(4096)));
        assert!(!built(&at(7)) && !built(&mark));
        assert!(!built(&std::fs::read("/proc/self/exe").unwrap()));
    }
}
