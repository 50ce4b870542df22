use std::net::UdpSocket;
use std::process::Stdio;

use super::{Running, qsm};

/// A command of relays over loopback, with pipes.
pub(crate) fn relaying(words: &[&str]) -> Running {
    let mut command = qsm();
    command.arg("relay").args(words);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running(command.spawn().unwrap())
}

/// Ports of this host that are free now.
pub(crate) fn free_ports<const N: usize>() -> [String; N] {
    let sockets = [(); N].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().to_string())
}
