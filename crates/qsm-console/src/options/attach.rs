//! The option of commands that may use the engine of another process.

use std::path::PathBuf;

use clap::{Args, Command, Id};

use super::node::NodeOptions;

/// An engine to attach to, if any.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub struct AttachOptions {
    /// Use the engine that `qsm engine --at PATH` shares, instead of a node of this process
    #[arg(long, value_name = "PATH", conflicts_with_all = options_of_own_node())]
    pub attach: Option<PathBuf>,
}

/// The options that describe a node of this process: those of [`NodeOptions`], but for `--verbose`.
fn options_of_own_node() -> Vec<Id> {
    let command = NodeOptions::augment_args(Command::new("node"));
    let ids = command
        .get_arguments()
        .map(|option| option.get_id().clone());
    ids.filter(|id| id != "verbose").collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::error::ErrorKind;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        attach: AttachOptions,
        #[command(flatten)]
        node: NodeOptions,
    }

    #[test]
    fn an_engine_has_its_own_node() {
        for option in [
            "--interface lo",
            "--ipv6",
            "--cluster default",
            "--discovery 239.1.2.3:4",
            "--data-port 9",
            "--multicast ssm",
            "--data-range ff18::/32",
            "--name n",
            "--service 10.0.0.1:5",
            "--receive-buffer 4M",
            "--retention 1M",
            "--gone-after 5",
            "--slow-after 5",
            "--plan-every 5",
            "--plan-unwanted 5",
            "--plan-common 5",
            "--hints /dev/null",
            "--loss 1",
            "--embedded-gms",
            "--no-embedded-gms",
            "--cores 1",
            "--pin 0",
            "--realtime 5",
            "--busy-poll 50",
        ] {
            let line = format!("qsm --attach path {option}");
            let error = Line::try_parse_from(line.split(' ')).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ArgumentConflict, "{line}");
        }
        let line = Line::try_parse_from(["qsm", "--attach", "path", "--verbose"]).unwrap();
        assert_eq!(line.attach.attach, Some(PathBuf::from("path")));
        assert!(line.node.network.verbose);
    }
}
