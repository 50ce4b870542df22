//! `groupcast`: measures back-ends, and predicts what they would save a program.

mod bench;
mod chart;
mod model;
mod page;
mod predict;
mod profile;
mod range;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use range::Kind;

const HELP: &str = "\
groupcast choose                     which back-end is used here, and why
groupcast bench [--wire WIRE] [--out DIR]
                                     time per recipient of every back-end, as CSV and SVG; needs root
                                     WIRE: discard, veth or loopback; all without it
groupcast page [--out DIR]           what was measured beside the paper's trends, from the tables in DIR
groupcast predict [--pid PID [--thread TID]] [--seconds N] [--recipients N] [--payload N]
                                     what cloning would save the running program PID, or one of its
                                     threads; without a PID, only how much faster sending gets
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        Some("choose") => choose(),
        Some("bench") => bench(&words[1..]),
        Some("page") => out(&words[1..]).and_then(|out| page::run(&out).map_err(|e| e.to_string())),
        Some("predict") => predict::run(&words[1..]),
        Some("--help" | "-h" | "help") => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(HELP.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            eprintln!("groupcast: {complaint}");
            ExitCode::FAILURE
        }
    }
}

fn choose() -> Result<(), String> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").map_err(|e| e.to_string())?;
    let sender = groupcast::Sender::new(vec![socket]).map_err(|e| e.to_string())?;
    println!("{}", sender.choice());
    Ok(())
}

fn bench(words: &[String]) -> Result<(), String> {
    let out = out(words)?;
    let kinds = match option(words, "--wire")?.as_deref() {
        None => Kind::ALL.to_vec(),
        Some(name) => {
            let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
            vec![found.ok_or_else(|| format!("no wire {name}: discard, veth or loopback"))?]
        }
    };
    for kind in kinds {
        bench::run(kind, &out).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Where tables and pictures are.
fn out(words: &[String]) -> Result<PathBuf, String> {
    let out = option(words, "--out")?;
    Ok(out.map_or_else(|| PathBuf::from("figures"), PathBuf::from))
}

/// The word behind this one.
fn option(words: &[String], name: &str) -> Result<Option<String>, String> {
    let Some(at) = words.iter().position(|word| word == name) else {
        return Ok(None);
    };
    let value = words.get(at + 1).cloned();
    value
        .map(Some)
        .ok_or_else(|| format!("{name} needs a value"))
}

/// The number behind this word.
fn number(words: &[String], name: &str, default: u64) -> Result<u64, String> {
    option(words, name)?.map_or(Ok(default), |text| {
        text.parse()
            .map_err(|_| format!("{name} {text}: not a number"))
    })
}
