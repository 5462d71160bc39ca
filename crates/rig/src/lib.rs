//! The real world for tests: namespaces, veth pairs, processes under the preload.
