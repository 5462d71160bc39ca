//! A deterministic world for the engine: clock, links, faults, hosts, checkers.
