//! Makes a lab of three hosts and prints a table of them. Run as root: `cargo run -p lab --example
//! hosts`.

use std::process::ExitCode;
use std::time::Instant;

use lab::{Lab, LabError};

const HOSTS: usize = 3;

fn main() -> ExitCode {
    match Lab::available()
        .map_err(LabError::from)
        .and_then(|()| show())
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hosts: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show() -> Result<(), LabError> {
    let start = Instant::now();
    let mut lab = Lab::new()?;
    let hosts = lab.add_hosts(HOSTS)?;
    let ms = start.elapsed().as_millis();
    println!("lab {} with {HOSTS} hosts, made in {ms} ms", lab.prefix());
    println!(
        "{:<6} {:<20} {:<12} {:<10} dropped",
        "host", "namespace", "address", "interface"
    );
    for id in hosts {
        let host = lab.host(id);
        let dropped = lab.drops(id)?.total_packets();
        let address = host.address().to_string();
        println!(
            "{:<6} {:<20} {address:<12} {:<10} {dropped}",
            host.name(),
            host.namespace().name(),
            host.interface()
        );
    }
    Ok(())
}
