//! Channels of exec and attach over a WebSocket, as in `v4.channel.k8s.io` and `v5.channel.k8s.io`: the first byte of
//! each message is the number of its channel.

pub const STDIN: u8 = 0;
pub const STDOUT: u8 = 1;
pub const STDERR: u8 = 2;
/// The exit status of the process, as a Status object.
pub const ERROR: u8 = 3;
/// Terminal sizes.
pub const RESIZE: u8 = 4;
/// Since version 5: closes the channel whose number is the second byte.
pub const CLOSE: u8 = 255;
