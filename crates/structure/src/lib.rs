//! Tests of the project's structure (`tests/it`); there is no code. They depend on nothing of the project, so that they
//! run within seconds: `cargo test -p structure`.
