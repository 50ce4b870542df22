//! The programs that set up namespaces: `ip`, `nft`, `ethtool`. Each call hands over a whole batch
//! on standard input: starting a process costs more than what it does here.

use std::env;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::{LabError, Unavailable};
use crate::namespace::Namespace;

/// Longest batch text quoted in an error, in characters.
const QUOTE_MAX: usize = 400;

/// A program and where to get it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    program: &'static str,
    package: &'static str,
    remedy: &'static str,
}

pub(crate) const IP: Tool = Tool {
    program: "ip",
    package: "iproute2",
    remedy: "run as root, and check that the kernel has veth and bridge (`modprobe veth bridge`)",
};
pub(crate) const NFT: Tool = Tool {
    program: "nft",
    package: "nftables",
    remedy: "run as root, and check that the kernel has nf_tables with numgen \
             (`modprobe nf_tables nft_numgen`)",
};
pub(crate) const ETHTOOL: Tool = Tool {
    program: "ethtool",
    package: "ethtool",
    remedy: "check with `ethtool -k` that the kernel lets tx-udp-segmentation be changed on veth",
};

impl Tool {
    /// Where the program is. The system folders are searched too, since `su` leaves them out of
    /// `PATH`.
    pub(crate) fn path(self) -> Result<PathBuf, Unavailable> {
        let path = env::var_os("PATH").unwrap_or_default();
        let system = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
        env::split_paths(&path)
            .chain(system)
            .map(|folder| folder.join(self.program))
            .find(|file| file.is_file())
            .ok_or(Unavailable::MissingProgram {
                program: self.program,
                package: self.package,
            })
    }

    /// Runs the program, in `namespace` or else where the calling thread is, feeds it `input`, and
    /// returns its output.
    pub(crate) fn run(
        self,
        namespace: Option<&Namespace>,
        args: &[&str],
        input: &str,
    ) -> Result<String, LabError> {
        let mut command = Command::new(self.path()?);
        command.args(args).env("LC_ALL", "C");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(namespace) = namespace {
            namespace.attach(&mut command);
        }
        let line = self.line(namespace, args, input);
        let failed = |source| LabError::system(format!("run `{line}`"), source);
        let mut child = command.spawn().map_err(failed)?;
        let written = match child.stdin.take() {
            Some(mut stdin) => stdin.write_all(input.as_bytes()),
            None => Ok(()),
        };
        let output = child.wait_with_output().map_err(failed)?;
        if !output.status.success() {
            // What it said is better than "broken pipe", so this comes first.
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(LabError::Command {
                line,
                stderr,
                remedy: self.remedy,
            });
        }
        written.map_err(failed)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn line(self, namespace: Option<&Namespace>, args: &[&str], input: &str) -> String {
        let mut line = format!("{} {}", self.program, args.join(" "));
        if let Some(namespace) = namespace {
            line = format!("ip netns exec {} {line}", namespace.name());
        }
        if !input.is_empty() {
            let quote: String = input
                .trim_end()
                .replace('\n', "; ")
                .chars()
                .take(QUOTE_MAX)
                .collect();
            line = format!("{line} <<< '{quote}'");
        }
        line
    }
}
