//! Parameters, rules and profiles.
