//! Channels of exec and attach over a WebSocket, as in `v4.channel.k8s.io` and `v5.channel.k8s.io`: the first byte of
//! each message is the number of its channel.

pub const STDIN: u8 = 0;
pub const STDOUT: u8 = 1;
pub const STDERR: u8 = 2;
/// The result of the process, as a Status.
pub const ERROR: u8 = 3;
/// Sizes of the terminal.
pub const RESIZE: u8 = 4;
/// Since version 5: closes the channel that the second byte names.
pub const CLOSE: u8 = 255;
