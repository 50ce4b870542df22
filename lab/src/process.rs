//! A process on a host: frozen, thawed, killed, waited for.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::LabError;
use crate::machine::HostId;
use crate::pidfd::Pidfd;

/// Where a process's standard output and standard error go. Standard input is as the [`Command`]
/// says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// To two files, which can be read at any time until the lab is dropped.
    Files,
    /// To where the creator's go, or where the [`Command`] says.
    Inherited,
    /// To pipes ([`Process::take_stdout`]). A pipe that nobody reads stops the process when it is
    /// full.
    Piped,
}

/// A process that runs on a host. Dropping this leaves it running; the lab kills it when it is
/// dropped itself.
#[derive(Debug)]
pub struct Process {
    host: HostId,
    pid: u32,
    pidfd: Pidfd,
    child: SharedChild,
    files: Option<[PathBuf; 2]>,
}

/// The lab has the child too, to kill it at the end. Whoever holds the lock may wait for the child;
/// so while it is held, and the child has not been waited for, its process id is its own.
#[derive(Debug, Clone)]
pub(crate) struct SharedChild(Arc<Mutex<Child>>);

impl SharedChild {
    fn lock(&self) -> MutexGuard<'_, Child> {
        // A panic while the lock was held leaves a child that is as good as before.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has not ended yet, as far as one can tell.
    pub(crate) fn running(&self) -> bool {
        matches!(self.lock().try_wait(), Ok(None))
    }

    /// SIGKILL, which a frozen process obeys too, and waits.
    pub(crate) fn kill(&self) -> io::Result<ExitStatus> {
        let mut child = self.lock();
        child.kill()?;
        child.wait()
    }
}

impl Process {
    /// Starts `command`, whose namespace is set already; `stem` is the start of the paths of output
    /// files.
    pub(crate) fn start(
        host: HostId,
        mut command: Command,
        output: Output,
        stem: &Path,
    ) -> Result<(Self, SharedChild), LabError> {
        let mut files = None;
        match output {
            Output::Inherited => {}
            Output::Piped => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
            }
            Output::Files => {
                let paths = ["stdout", "stderr"].map(|end| stem.with_extension(end));
                let make = |path: &PathBuf| {
                    File::create_new(path)
                        .map_err(|e| LabError::system(format!("make {}", path.display()), e))
                };
                command.stdout(make(&paths[0])?).stderr(make(&paths[1])?);
                files = Some(paths);
            }
        }
        let program = command.get_program().to_owned();
        let failed = |e| LabError::system(format!("start {}", program.display()), e);
        let mut child = command.spawn().map_err(failed)?;
        let pid = child.id();
        let pidfd = match Pidfd::open(pid) {
            Ok(pidfd) => pidfd,
            Err(e) => {
                child.kill().and_then(|()| child.wait()).map_err(failed)?;
                return Err(failed(e));
            }
        };
        let child = SharedChild(Arc::new(Mutex::new(child)));
        Ok((
            Self {
                host,
                pid,
                pidfd,
                child: child.clone(),
                files,
            },
            child,
        ))
    }

    /// The host it runs on.
    #[must_use]
    pub fn host(&self) -> HostId {
        self.host
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Stops it (SIGSTOP), as a host that hangs; it is stopped when this returns.
    ///
    /// # Errors
    ///
    /// [`LabError::ProcessEnded`], or [`LabError::System`].
    pub fn freeze(&mut self) -> Result<(), LabError> {
        self.signal(libc::SIGSTOP)?;
        self.await_stop()
            .map_err(|e| LabError::system(format!("wait until {} stops", self.pid), e))
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// [`LabError::ProcessEnded`], or [`LabError::System`].
    pub fn thaw(&mut self) -> Result<(), LabError> {
        self.signal(libc::SIGCONT)
    }

    /// Asks it to end (SIGTERM) and does not wait. A frozen process learns of it when thawed.
    ///
    /// # Errors
    ///
    /// [`LabError::ProcessEnded`], or [`LabError::System`].
    pub fn terminate(&mut self) -> Result<(), LabError> {
        self.signal(libc::SIGTERM)
    }

    /// Kills it (SIGKILL) and waits; how it ended, if it had ended before.
    ///
    /// # Errors
    ///
    /// [`LabError::System`].
    pub fn kill(&mut self) -> Result<ExitStatus, LabError> {
        self.child
            .kill()
            .map_err(|e| LabError::system(format!("kill process {}", self.pid), e))
    }

    /// Waits until it ends.
    ///
    /// # Errors
    ///
    /// [`LabError::System`].
    pub fn wait(&mut self) -> Result<ExitStatus, LabError> {
        // Not under the lock, so that the lab can kill the process meanwhile.
        self.pidfd
            .wait_end(None)
            .and_then(|_| self.child.lock().wait())
            .map_err(|e| self.lost(e))
    }

    /// Waits until it ends, at most for `limit`; `None` if it still runs.
    ///
    /// # Errors
    ///
    /// [`LabError::System`].
    pub fn wait_at_most(&mut self, limit: Duration) -> Result<Option<ExitStatus>, LabError> {
        self.pidfd.wait_end(Some(limit)).map_err(|e| self.lost(e))?;
        self.try_wait()
    }

    /// How it ended; `None` if it still runs.
    ///
    /// # Errors
    ///
    /// [`LabError::System`].
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, LabError> {
        self.child.lock().try_wait().map_err(|e| self.lost(e))
    }

    /// The file with its standard output, under [`Output::Files`].
    #[must_use]
    pub fn stdout_path(&self) -> Option<&Path> {
        self.files.as_ref().map(|[stdout, _]| stdout.as_path())
    }

    /// The file with its standard error, under [`Output::Files`].
    #[must_use]
    pub fn stderr_path(&self) -> Option<&Path> {
        self.files.as_ref().map(|[_, stderr]| stderr.as_path())
    }

    /// What it has written to standard output so far, under [`Output::Files`]; else empty.
    ///
    /// # Errors
    ///
    /// [`LabError::System`] if the file cannot be read.
    pub fn stdout_text(&self) -> Result<String, LabError> {
        read(self.stdout_path())
    }

    /// What it has written to standard error so far, under [`Output::Files`]; else empty.
    ///
    /// # Errors
    ///
    /// [`LabError::System`] if the file cannot be read.
    pub fn stderr_text(&self) -> Result<String, LabError> {
        read(self.stderr_path())
    }

    /// The writing end of its standard input, if the [`Command`] asked for a pipe; once.
    #[must_use]
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.lock().stdin.take()
    }

    /// The reading end of its standard output, under [`Output::Piped`]; once.
    #[must_use]
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.lock().stdout.take()
    }

    /// The reading end of its standard error, under [`Output::Piped`]; once.
    #[must_use]
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.lock().stderr.take()
    }

    fn signal(&self, signal: i32) -> Result<(), LabError> {
        if let Some(status) = self.child.lock().try_wait().map_err(|e| self.lost(e))? {
            return Err(LabError::ProcessEnded {
                pid: self.pid,
                status,
            });
        }
        self.pidfd
            .signal(signal)
            .map_err(|e| LabError::system(format!("signal process {}", self.pid), e))
    }

    /// Waits until the process is stopped, or has ended, and leaves what it learns to others
    /// (`WNOWAIT`).
    fn await_stop(&self) -> io::Result<()> {
        let options = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT;
        loop {
            // SAFETY: `siginfo_t` is plain data for which all zeroes are valid.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // SAFETY: the pointer is to a siginfo_t that we own; the other arguments are integers.
            if unsafe { libc::waitid(libc::P_PID, self.pid, &raw mut info, options) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // It has ended, and was waited for.
                Some(libc::ECHILD) => return Ok(()),
                _ => return Err(error),
            }
        }
    }

    fn lost(&self, error: io::Error) -> LabError {
        LabError::system(format!("wait for process {}", self.pid), error)
    }
}

fn read(path: Option<&Path>) -> Result<String, LabError> {
    let Some(path) = path else {
        return Ok(String::new());
    };
    let bytes =
        fs::read(path).map_err(|e| LabError::system(format!("read {}", path.display()), e))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
