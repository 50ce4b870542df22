//! `qsm lab`: programs on test hosts out of network namespaces.

mod link;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use lab::{HOSTS_MAX, Lab, LabError, Output, Process, Traffic};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::options::{loss_ppm, seconds};
use qsm_console::output;
use qsm_console::stop::Stop;

use self::link::{LinkOption, Sites};

/// How often signals are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How long programs have to end after being asked.
const END: Duration = Duration::from_secs(5);

/// Arguments of `qsm lab`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm lab run --hosts 3 -- ip address"
    "qsm lab run --hosts 4 --loss 2 -- qsm sub news --count 10 --name host-{index}"
    "qsm lab run --hosts 2 --ipv6 -- qsm sub news --count 10 --ipv6"
    "qsm lab run --hosts 6 --link 0-1:delay=50ms,loss=0.5%,rate=1Gbit -- qsm doctor"
    "qsm lab reap"
))]
pub(crate) struct LabArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

/// What a lab can do.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LabCommand {
    /// Run a command on every host of a new lab, until all have ended
    Run(RunArgs),
    /// Remove labs whose program was killed
    Reap,
}

/// Arguments of `qsm lab run`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// Hosts, each with its own network, joined by one switch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=HOSTS_MAX as i64))]
    pub(crate) hosts: u16,
    /// Lose this share of all UDP packets at each host
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = loss_ppm)]
    pub(crate) loss: u32,
    /// Divide the hosts among sites, and join two of these, A and B, by a link; once for each link.
    /// Sites are numbered from 0. SHAPE: delay=50ms, jitter=5ms, loss=0.5%, rate=1Gbit, queue=1M
    /// (bytes that wait for the rate) [default: a tenth of a second's], mark=20ms (wait, or bytes that wait,
    /// behind which packets are marked by ECN), with commas between. Links carry no multicast
    #[arg(long, value_name = "A-B:SHAPE")]
    pub(crate) link: Vec<LinkOption>,
    /// Which packets links lose and delay: the same number, the same ones
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// Give hosts addresses of IPv6, too; {address} is then one of them
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// End the commands after this long [default: wait for them]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// The command; {index} is the host's number from 0, {address} its address, {hosts} how many
    /// there are, {site} its site
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// No lab can be made here, or a command on a host failed.
pub(crate) fn run(args: &LabArgs) -> Result<(), Failure> {
    match &args.command {
        LabCommand::Run(args) => run_on_hosts(args),
        LabCommand::Reap => {
            let reaped = Lab::reap_stale()?;
            for prefix in &reaped {
                output::write(format!("{prefix}\n"))?;
            }
            output::say(format_args!("qsm: {} labs removed", reaped.len()));
            Ok(())
        }
    }
}

/// A command on a host, and the threads that copy its output.
struct Running {
    name: String,
    process: Process,
    copies: Vec<JoinHandle<()>>,
    success: Option<bool>,
}

fn run_on_hosts(args: &RunArgs) -> Result<(), Failure> {
    Lab::available().map_err(LabError::from)?;
    let stop = Stop::on_signals()?;
    let mut lab = match args.ipv6 {
        true => Lab::with_ipv6()?,
        false => Lab::new()?,
    };
    let sites = Sites::make(&mut lab, &args.link, args.seed)?;
    let hosts = usize::from(args.hosts);
    let ids = sites.add_hosts(&mut lab, hosts)?;
    for &id in ids.iter().filter(|_| args.loss > 0) {
        lab.set_loss(id, args.loss, Traffic::All)?;
    }
    let mut running = Vec::new();
    for id in ids {
        let host = lab.host(id);
        let name = host.name().to_owned();
        let address = host
            .address_v6()
            .map_or_else(|| host.address().to_string(), |ip| ip.to_string());
        let site = sites.of_host(id.index(), hosts).to_string();
        let words = |word: &String| {
            substitute(word, id.index(), &address, args.hosts).replace("{site}", &site)
        };
        let mut words = args.command.iter().map(words);
        let Some(program) = words.next() else {
            break;
        };
        let mut command = lab.command(id, program);
        command.args(words).stdin(Stdio::null());
        let mut process = lab.spawn(id, command, Output::Piped)?;
        let copies = [
            process
                .take_stdout()
                .map(|pipe| copy(pipe, format!("{name}| "), io::stdout())),
            process
                .take_stderr()
                .map(|pipe| copy(pipe, format!("{name}! "), io::stderr())),
        ];
        running.push(Running {
            name,
            process,
            copies: copies.into_iter().flatten().collect(),
            success: None,
        });
    }
    let in_time = wait(&mut running, args.timeout, &stop)?;
    let links = sites.report(&lab)?;
    // Dropped while the copies still read: a child of a command may hold a pipe open.
    drop(lab);
    let reported = report(running, in_time, args);
    links.lines().for_each(output::say);
    reported
}

/// Waits for all; when time is up or the user wants it, asks them to end. True if all ended by
/// themselves.
fn wait(running: &mut [Running], limit: Option<Duration>, stop: &Stop) -> Result<bool, Failure> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    let mut asked: Option<Instant> = None;
    loop {
        let mut left = None;
        for one in running.iter_mut().filter(|one| one.success.is_none()) {
            one.success = one.process.try_wait()?.map(|status| status.success());
            if one.success.is_none() {
                left = Some(one);
            }
        }
        let Some(first) = left else {
            return Ok(asked.is_none());
        };
        first.process.wait_at_most(LOOK)?;
        let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if asked.is_none() && (late || stop.is_asked()) {
            asked = Some(Instant::now());
            for one in running.iter_mut().filter(|one| one.success.is_none()) {
                // It may just have ended.
                drop(one.process.terminate());
            }
        }
        if asked.is_some_and(|asked| asked.elapsed() > END) {
            return Ok(false);
        }
    }
}

fn report(running: Vec<Running>, in_time: bool, args: &RunArgs) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for one in running {
        for copy in one.copies {
            // A thread that could not write has nothing more to say.
            drop(copy.join());
        }
        if one.success != Some(true) {
            failed.push(one.name);
        }
    }
    let cause = format!("the command did not succeed on {}", failed.join(", "));
    match (in_time, failed.is_empty()) {
        (_, true) => Ok(()),
        (true, _) => Err(Failure::failed(cause, "see what it wrote, above")),
        (false, _) if args.timeout.is_some() => Err(Failure::timeout(
            cause,
            "give a longer --timeout, or see what it wrote",
        )),
        (false, _) => Err(Failure::failed(
            cause,
            "it was interrupted; let it run to its end",
        )),
    }
}

fn substitute(word: &str, index: usize, address: &str, hosts: u16) -> String {
    word.replace("{index}", &index.to_string())
        .replace("{address}", address)
        .replace("{hosts}", &hosts.to_string())
}

/// Copies lines with a prefix, whole lines at a time.
fn copy<R, W>(from: R, prefix: String, mut to: W) -> JoinHandle<()>
where
    R: Read + Send + 'static,
    W: Write + Send + 'static,
{
    thread::spawn(move || {
        let mut input = BufReader::new(from);
        let mut line = Vec::new();
        loop {
            line.clear();
            line.extend_from_slice(prefix.as_bytes());
            match input.read_until(b'\n', &mut line) {
                Ok(read) if read > 0 => {}
                _ => return,
            }
            if line.last() != Some(&b'\n') {
                line.push(b'\n');
            }
            if to.write_all(&line).is_err() {
                return;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_wherever_they_stand() {
        assert_eq!(
            substitute("h{index}:{address}", 3, "10.78.0.4", 5),
            "h3:10.78.0.4"
        );
        assert_eq!(substitute("{hosts}{hosts} {other}", 0, "", 5), "55 {other}");
    }
}
