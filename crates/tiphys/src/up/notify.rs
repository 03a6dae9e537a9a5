//! systemd's notification protocol: tells the service manager that the cluster is up.

use std::{
    ffi::OsString,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    path::Path,
};

const VARIABLE: &str = "NOTIFY_SOCKET";

/// Sends `READY=1` if `NOTIFY_SOCKET` is set.
pub(super) fn ready() {
    let Some(socket) = std::env::var_os(VARIABLE) else { return };
    if let Err(error) = send(&socket, "READY=1") {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// Sends a state to a socket. A name that begins with `@` is in the abstract namespace.
fn send(socket: &OsString, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(Path::new(socket))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_sockets_are_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("tiphys-test-{}", std::process::id());
        let named = SocketAddr::from_abstract_name(&name).unwrap();
        let (file, abstract_) =
            (UnixDatagram::bind(&path).unwrap(), UnixDatagram::bind_addr(&named).unwrap());
        for (socket, address) in
            [(file, path.into()), (abstract_, OsString::from(format!("@{name}")))]
        {
            send(&address, "READY=1").unwrap();
            let mut buffer = [0; 32];
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1");
        }
    }
}
