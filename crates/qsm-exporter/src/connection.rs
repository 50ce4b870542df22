use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::answer::{Answer, Head};

/// Longest head of a request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Time that a client has for its request.
pub const REQUEST_TIME: Duration = Duration::from_secs(2);
/// Time that a client has to read the answer.
pub const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Time in which the rest of a request is read that nobody wants: a connection closed with unread
/// bytes is reset, and its client may not see the answer.
const REST_TIME: Duration = Duration::from_millis(200);
/// Bytes of such a rest.
const REST_BYTES_MAX: usize = 64 << 10;

/// Serves one client to its end. One that is too slow, or goes away, is left alone.
///
/// # Errors
/// The connection ended, or its time was over.
pub(crate) fn serve(
    client: &mut TcpStream,
    page: &dyn Fn() -> Result<String, String>,
) -> io::Result<()> {
    let answer = match head(client)? {
        Some(Head::Whole(request)) => Answer::to(&request, page),
        Some(Head::Partial | Head::Wrong) => Answer::bad_request(),
        None => Answer::too_long(),
    };
    let bytes = answer.to_bytes();
    let until = Instant::now() + ANSWER_TIME;
    let mut sent = 0;
    while sent < bytes.len() {
        client.set_write_timeout(Some(left(until)?))?;
        match client.write(&bytes[sent..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => sent += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    client.shutdown(Shutdown::Write)?;
    rest(client)
}

/// The head of the request, as far as it came; `None` if it is too long.
fn head(client: &mut TcpStream) -> io::Result<Option<Head>> {
    let until = Instant::now() + REQUEST_TIME;
    let mut bytes = [0; REQUEST_BYTES_MAX];
    let mut filled = 0;
    loop {
        client.set_read_timeout(Some(left(until)?))?;
        match client.read(&mut bytes[filled..]) {
            Ok(0) => return Ok(Some(Head::Partial)),
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        match Head::read(&bytes[..filled]) {
            Head::Partial if filled == bytes.len() => return Ok(None),
            Head::Partial => {}
            whole => return Ok(Some(whole)),
        }
    }
}

fn rest(client: &mut TcpStream) -> io::Result<()> {
    let until = Instant::now() + REST_TIME;
    let (mut bytes, mut passed) = ([0; 4096], 0);
    while passed < REST_BYTES_MAX {
        client.set_read_timeout(Some(left(until)?))?;
        match client.read(&mut bytes)? {
            0 => break,
            more => passed += more,
        }
    }
    Ok(())
}

/// The time left until then.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}
