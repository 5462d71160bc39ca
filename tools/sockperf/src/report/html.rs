//! One self-contained page: the runs' data as JSON and a script that draws it. It opens without a network.

use crate::exit::{Code, Failure, Result};
use crate::report::json::{Value, document};

const PAGE: &str = include_str!("page.html");
const MARK: &str = "/*DATA*/null";

/// Writes the page that shows `runs` to `path`.
pub fn write(path: &str, runs: &[Value]) -> Result<()> {
    let page = PAGE.replacen(MARK, &document(runs).to_string(), 1);
    std::fs::write(path, page).map_err(|e| Failure::new(Code::NotFound, format!("cannot write {path}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_place_for_data_and_needs_no_network() {
        assert_eq!(PAGE.matches(MARK).count(), 1);
        for forbidden in ["http://", "https://", "src=", "@import", "fetch("] {
            let allowed = PAGE.replace("http://www.w3.org/2000/svg", "");
            assert!(!allowed.contains(forbidden), "{forbidden}");
        }
    }
}
