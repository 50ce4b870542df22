use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use crate::question::{Answer, Question, Reply};

/// Longest question, in bytes.
pub const QUESTION_BYTES_MAX: usize = 8 << 10;
/// Time that a client has for each part of its question.
pub const QUESTION_TIME: Duration = Duration::from_secs(2);
/// Time that a client has to take each part of the answer.
pub const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Nodes of one process that can be asked.
const SOCKETS_MAX: u32 = 1024;
/// Pause after the system could not give a connection, as when descriptors are short.
const PAUSE: Duration = Duration::from_millis(100);

/// Owner of a socket, which its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Node,
    Service,
}

impl Owner {
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Node => "qsm",
            Self::Service => "qsm-gms",
        }
    }
}

/// A socket at which a node is asked, or a membership service; until it is dropped.
pub struct AdminSocket {
    name: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    listener: UnixListener,
    ended: AtomicBool,
}

impl AdminSocket {
    /// Opens a socket of a node at the first free name of this process. `answer` is called on a thread
    /// of it.
    ///
    /// # Errors
    /// The system gives no socket or no thread.
    pub fn open(
        answer: impl Fn(Question) -> Result<Answer, String> + Send + 'static,
    ) -> io::Result<Self> {
        Self::open_of(Owner::Node, answer)
    }

    /// The same of a membership service.
    ///
    /// # Errors
    /// The system gives no socket or no thread.
    pub fn open_service(
        answer: impl Fn(Question) -> Result<Answer, String> + Send + 'static,
    ) -> io::Result<Self> {
        Self::open_of(Owner::Service, answer)
    }

    fn open_of(
        owner: Owner,
        answer: impl Fn(Question) -> Result<Answer, String> + Send + 'static,
    ) -> io::Result<Self> {
        let (name, listener) = listen(owner)?;
        let shared = Arc::new(Shared {
            listener,
            ended: AtomicBool::new(false),
        });
        let work = Arc::clone(&shared);
        let thread = thread::Builder::new().name("qsm-admin".to_owned());
        let thread = thread.spawn(move || work.run(&answer))?;
        Ok(Self {
            name,
            shared,
            thread: Some(thread),
        })
    }

    /// Its name in the abstract namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for AdminSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut it = f.debug_struct("AdminSocket");
        it.field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Wakes the thread from `accept`.
        let both = rustix::net::Shutdown::Both;
        let _woken = rustix::net::shutdown(&self.shared.listener, both);
        // The answer may have held the last handle of what owns this socket.
        let thread = self.thread.take();
        let thread = thread.filter(|it| it.thread().id() != thread::current().id());
        drop(thread.map(JoinHandle::join));
    }
}

fn listen(owner: Owner) -> io::Result<(String, UnixListener)> {
    for number in 0..SOCKETS_MAX {
        let name = format!("{}/{}/{number}", owner.prefix(), std::process::id());
        let address = SocketAddr::from_abstract_name(&name)?;
        match UnixListener::bind_addr(&address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            listener => return Ok((name, listener?)),
        }
    }
    Err(ErrorKind::AddrInUse.into())
}

impl Shared {
    fn run(&self, answer: &dyn Fn(Question) -> Result<Answer, String>) {
        while !self.ended.load(Ordering::Acquire) {
            match self.listener.accept() {
                // A client that is slow or gone is its own affair.
                Ok((client, _)) => drop(serve(client, answer)),
                Err(_) if self.ended.load(Ordering::Acquire) => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }
}

fn serve(
    client: UnixStream,
    answer: &dyn Fn(Question) -> Result<Answer, String>,
) -> io::Result<()> {
    client.set_read_timeout(Some(QUESTION_TIME))?;
    client.set_write_timeout(Some(ANSWER_TIME))?;
    let reply = match may_ask(&client)? {
        true => reply(&read_line(&client)?, answer),
        false => Reply::Error("another user's node; ask as its user, or as root".to_owned()),
    };
    let mut bytes = serde_json::to_vec(&reply)?;
    bytes.push(b'\n');
    (&client).write_all(&bytes)
}

/// Tells whether the other end belongs to this process's user, or to root.
fn may_ask(client: &UnixStream) -> io::Result<bool> {
    let user = socket_peercred(client)?.uid;
    Ok(user == geteuid() || user.is_root())
}

fn read_line(client: &UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let limit = QUESTION_BYTES_MAX as u64;
    BufReader::new(client.take(limit)).read_until(b'\n', &mut line)?;
    Ok(line)
}

fn reply(line: &[u8], answer: &dyn Fn(Question) -> Result<Answer, String>) -> Reply {
    let question = match serde_json::from_slice(line) {
        Ok(question) => question,
        Err(error) => {
            let remedy = r#"ask {"ask":"node"}, {"ask":"counters"} or {"ask":"group","name":NAME}"#;
            return Reply::Error(format!("not a question ({error}); {remedy}"));
        }
    };
    let answer = catch_unwind(AssertUnwindSafe(|| answer(question)));
    match answer {
        Ok(Ok(answer)) => Reply::Answer(answer),
        Ok(Err(cause)) => Reply::Error(cause),
        Err(_) => Reply::Error("the answer could not be made: a panic".to_owned()),
    }
}
