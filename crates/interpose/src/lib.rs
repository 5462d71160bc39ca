//! Everything C can see: hooks, genuine functions, guard.
