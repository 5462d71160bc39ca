//! Shell patterns as fnmatch(3) with no flags: `*`, `?`, `[a-z]`, `[!a-z]` and `\` for the next character.
//! Linear in memory, at worst pattern times text in time: no pattern can hang the program.

/// Whether the whole text matches the pattern.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to resume when a later part fails: just after the last star, and the text position it has eaten up to.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        if p == pattern.len() && t == text.len() {
            return true;
        }
        if t < text.len()
            && let Some(next) = one(pattern, p, text[t])
        {
            p = next;
            t += 1;
            continue;
        }
        match retry {
            Some((after_star, eaten)) if eaten < text.len() => {
                retry = Some((after_star, eaten + 1));
                p = after_star;
                t = eaten + 1;
            }
            _ => return false,
        }
    }
}

/// Matches one byte against the pattern element at `p`; the position after the element.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        b'[' => match class(pattern, p + 1, byte) {
            Some((hit, next)) => hit.then_some(next),
            // An unclosed bracket is an ordinary character.
            None => (byte == b'[').then_some(p + 1),
        },
        literal => (literal == byte).then_some(p + 1),
    }
}

/// A bracket expression from just after `[`: whether it holds `byte`, and where it ends.
fn class(pattern: &[u8], mut p: usize, byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(p), Some(b'!' | b'^'));
    if negated {
        p += 1;
    }
    let (first, mut hit) = (p, false);
    loop {
        let low = *pattern.get(p)?;
        // `]` right after the opening is a member.
        if low == b']' && p > first {
            return Some((hit != negated, p + 1));
        }
        match (pattern.get(p + 1), pattern.get(p + 2)) {
            (Some(b'-'), Some(&high)) if high != b']' => {
                hit |= (low..=high).contains(&byte);
                p += 3;
            }
            _ => {
                hit |= low == byte;
                p += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_fnmatch_does() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "redis"),
            ("redis*", "redis-server"),
            ("*server", "redis-server"),
            ("r?dis", "redis"),
            ("[a-r]edis", "redis"),
            ("[!a-q]edis", "redis"),
            ("[]x]", "]"),
            ("a\\*b", "a*b"),
            ("a*b*c", "axxbxxbc"),
            ("[a", "[a"),
            ("", ""),
            ("*/x", "a/b/x"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("redis", "redis-server"),
            ("r?dis", "rdis"),
            ("a\\*b", "axb"),
            ("[!r]edis", "redis"),
            ("", "x"),
            ("?", ""),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_exponential_time() {
        let pattern = "*a".repeat(64) + "b";
        assert!(!matches(&pattern, &"a".repeat(4096)));
    }
}
