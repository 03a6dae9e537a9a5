//! Compiles the interface of etcd; no protoc is needed.

use std::{env, fs, path::Path};

use protox::prost::Message as _;

#[expect(clippy::disallowed_methods, reason = "how cargo says where to put it")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["etcd.proto"], ["proto"])?;
    // What the messages are called in JSON is read from here at run time.
    let descriptors = Path::new(&env::var("OUT_DIR")?).join("descriptors");
    fs::write(descriptors, files.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".").build_transport(false).compile_fds(files)?;
    Ok(())
}
