//! The interface for C: the example, compiled against the header and linked with the static and the
//! shared library, and what the calls promise.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::path::Path;
use std::process::Command;

use groupcast::capi::{GroupBuffer, GroupVector, sendgroup, sendgroup_forget};

fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_c_example_runs_with_both_libraries() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
    for kind in ["staticlib", "cdylib"] {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args([
                "rustc",
                "--locked",
                "--offline",
                "--lib",
                "--crate-type",
                kind,
            ])
            .current_dir(root)
            .env("CARGO_TARGET_DIR", &target);
        run(&mut cargo);
    }
    let built = target.join("debug");
    for library in ["libgroupcast.a", "libgroupcast.so"] {
        let program = target.join(library.replace('.', "-"));
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-I"])
            .arg(root.join("include"))
            .arg(root.join("examples/c/fanout.c"))
            .arg(built.join(library))
            .args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"])
            .arg(&program);
        run(&mut cc);
        let said = run(Command::new(&program).env("LD_LIBRARY_PATH", &built));
        assert!(
            said.contains("sent to 16 of 17, the last: Invalid argument"),
            "{said}"
        );
        assert!(said.contains("every client got its line"), "{said}");
    }
}

/// A `giobuf` and its recipients in one piece of memory.
#[repr(C)]
struct Call<const N: usize> {
    shared: libc::iovec,
    recipients: [GroupVector; N],
}

const NOTHING: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// Sends two bytes to each of these; the result and what became of each.
fn send<const N: usize>(socket: &UdpSocket, to: [libc::sockaddr_in; N]) -> (i32, [i32; N]) {
    let mut bytes = *b"hi";
    let call = Call {
        shared: libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        },
        recipients: to.map(|giov_dest| GroupVector {
            giov_dest,
            giov_prepend: NOTHING,
            giov_append: NOTHING,
        }),
    };
    let mut errors = [-1; N];
    let buffer = (&raw const call).cast::<GroupBuffer>();
    // SAFETY: the buffer has as many recipients as is said, and so have the errors.
    let sent = unsafe { sendgroup(socket.as_raw_fd(), buffer, N, 0, errors.as_mut_ptr()) };
    (sent, errors)
}

/// The address as C has it, of a family that need not be its own.
fn name(of: SocketAddr, family: i32) -> libc::sockaddr_in {
    let SocketAddr::V4(of) = of else {
        panic!("addresses are of IPv4 here");
    };
    libc::sockaddr_in {
        sin_family: family as libc::sa_family_t,
        sin_port: of.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(of.ip().octets()),
        },
        sin_zero: [0; 8],
    }
}

/// The kernel's answer to a datagram to an address.
fn told_by_the_kernel(socket: &UdpSocket, to: libc::sockaddr_in) -> i32 {
    let len = size_of_val(&to) as libc::socklen_t;
    // SAFETY: both pointers are to live memory of the lengths given.
    let sent = unsafe {
        let (bytes, name) = (b"hi".as_ptr().cast(), (&raw const to).cast());
        libc::sendto(socket.as_raw_fd(), bytes, 2, 0, name, len)
    };
    if sent < 0 {
        std::io::Error::last_os_error().raw_os_error().unwrap()
    } else {
        0
    }
}

/// Tells whether the kernel keeps ICMP errors for a socket.
fn reports_errors(socket: &UdpSocket) -> i32 {
    let (mut value, mut len): (libc::c_int, libc::socklen_t) = (-1, 4);
    // SAFETY: both pointers are to live memory, and `len` states the size of the first.
    let read = unsafe {
        let (level, name) = (libc::IPPROTO_IP, libc::IP_RECVERR);
        let value = (&raw mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), level, name, value, &raw mut len)
    };
    assert_eq!(read, 0);
    value
}

fn report_errors(socket: &UdpSocket) {
    let on: libc::c_int = 1;
    // SAFETY: the pointer is to live memory of the length given.
    let set = unsafe {
        let (level, name) = (libc::IPPROTO_IP, libc::IP_RECVERR);
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const on).cast(), 4)
    };
    assert_eq!(set, 0);
}

#[test]
fn an_address_of_another_family_is_refused_as_by_the_kernel() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = receiver.local_addr().unwrap();
    let families = [
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_PACKET,
        libc::AF_UNSPEC,
    ];
    let names = families.map(|family| name(to, family));
    let wanted = names.map(|name| told_by_the_kernel(&socket, name));
    assert_eq!(wanted, [0, libc::EAFNOSUPPORT, libc::EAFNOSUPPORT, 0]);
    let (sent, errors) = send(&socket, names);
    assert_eq!((sent, errors), (2, wanted));
    sendgroup_forget(socket.as_raw_fd());
}

#[test]
fn a_socket_that_is_let_go_of_is_what_it_was() {
    let gone = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = receiver.local_addr().unwrap();
    for before in [0, 1] {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        if before == 1 {
            report_errors(&socket);
        }
        assert_eq!(send(&socket, [name(gone, libc::AF_INET)]), (1, [0]));
        assert_eq!(reports_errors(&socket), 1);
        sendgroup_forget(socket.as_raw_fd());
        assert_eq!(reports_errors(&socket), before);
        if before == 0 {
            // The refusal that waits concerns another recipient.
            socket.send_to(b"fine", to).unwrap();
        }
    }
}

#[test]
fn a_socket_that_took_anothers_place_keeps_its_options() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = [name(receiver.local_addr().unwrap(), libc::AF_INET)];
    let first = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert_eq!(send(&first, to), (1, [0]));
    let second = UdpSocket::bind("127.0.0.1:0").unwrap();
    report_errors(&second);
    let place = first.into_raw_fd();
    // SAFETY: the descriptor is the first socket's, which nothing else owns any more.
    let second = unsafe {
        assert_eq!(libc::dup2(second.as_raw_fd(), place), place);
        UdpSocket::from(OwnedFd::from_raw_fd(place))
    };
    assert_eq!(send(&second, to), (1, [0]));
    assert_eq!(reports_errors(&second), 1);
    sendgroup_forget(place);
    assert_eq!(reports_errors(&second), 1);
}
