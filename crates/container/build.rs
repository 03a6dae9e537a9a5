//! Generates the CRI types and services from `cri.proto`; protoc is not needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["cri.proto"], ["proto"])?;
    tonic_prost_build::configure().build_transport(true).compile_fds(files)?;
    Ok(())
}
