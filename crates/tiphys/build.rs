//! Linker flags of release builds. The executable is also the content of our own images, so it is linked to be small.

use std::env;

#[expect(clippy::disallowed_methods, reason = "this is how cargo tells what is built")]
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|it| it == value);
    // On this target the toolchain brings its own linker, which supports these flags.
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_ARCH", "x86_64") {
        for flag in ["--icf=all", "--strip-all", "-z,pack-relative-relocs"] {
            println!("cargo:rustc-link-arg-bins=-Wl,{flag}");
        }
    }
}
