//! `pauses`: what it costs the others, and the victim, that somebody stands still or is cut off.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use qsm_system::trial::{Fault, Load, Role, Trial};

#[derive(Debug, Parser)]
struct Arguments {
    /// Roles: receiver, cacher, leader, sender, service, embedded.
    #[arg(long, value_delimiter = ',')]
    roles: Vec<String>,
    /// Faults: pause, blackout.
    #[arg(long, value_delimiter = ',')]
    faults: Vec<String>,
    #[arg(long, value_delimiter = ',', default_value = "0.2,1,5,10")]
    seconds: Vec<f64>,
    #[arg(long, default_value_t = 2000)]
    rate: u64,
    #[arg(long, default_value_t = 300)]
    bytes: usize,
    #[arg(long, default_value_t = 4)]
    receivers: usize,
    #[arg(long, default_value_t = 30.0)]
    gone_after: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let program = program();
    let wanted =
        |list: &[String], name: &str| list.is_empty() || list.iter().any(|one| one == name);
    let roles = Role::ALL.into_iter();
    let mut failed = false;
    for role in roles.filter(|role| wanted(&arguments.roles, role.name())) {
        let faults = Fault::ALL.into_iter();
        for fault in faults.filter(|fault| wanted(&arguments.faults, fault.name())) {
            for seconds in &arguments.seconds {
                failed |= !tried(&arguments, role, fault, *seconds, &program);
            }
        }
    }
    ExitCode::from(u8::from(failed))
}

/// Runs a trial and prints what came of it; `false` if it failed.
fn tried(arguments: &Arguments, role: Role, fault: Fault, seconds: f64, program: &Path) -> bool {
    let trial = Trial {
        role,
        fault,
        lasts: Duration::from_secs_f64(seconds),
        load: Load {
            bytes: arguments.bytes,
            rate: arguments.rate,
        },
        receivers: arguments.receivers,
        calm: Duration::from_secs_f64(seconds.max(2.0)),
        service_options: vec![format!("--gone-after={}", arguments.gone_after)],
    };
    let outcome = trial.run(program);
    let (role, fault) = (role.name(), fault.name());
    match &outcome {
        Ok(outcome) => println!("{role} {fault} {seconds}: {outcome}"),
        Err(error) => println!("{role} {fault} {seconds}: failed: {error}"),
    }
    outcome.is_ok()
}

/// The helper program beside this one.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name("system-node")
}
