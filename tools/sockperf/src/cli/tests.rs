//! The command line: spellings, ranges, conflicts.

use super::*;
