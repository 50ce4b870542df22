//! A live server in the manner of the paper's experiment (§4.3): one stream of 100 kbit/s to many
//! RTP clients, by a `sendmsg` loop and by clones. Needs root: server and clients get a network
//! namespace each.
//!
//! ```text
//! cargo run --release -p groupcast --example rtp_live -- [--clients 1000,5000] [--seconds 4]
//!     [--file STREAM.ts] [--out DIR] [--predict PROGRAM]
//! ```
//!
//! With `--predict target/release/groupcast`, that program watches the loop serve 1,000 clients and
//! predicts what clones would save (E57).

#[path = "../../src/bin/groupcast/chart.rs"]
mod chart;
mod clients;
mod server;

use std::error::Error;
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chart::Chart;
use clients::Client;
use groupcast::wire::Wire;
use groupcast::{BackEnd, Sender};
use server::Report;

/// Packets of the unpaced run that finds the saturation point.
const UNPACED: u64 = 40;
const CSV_HEAD: &str = "back_end,clients,cpu_percent,saturation_clients,rate_mean_kbit,\
                        rate_min_kbit,wrong_packets,jitter_mean_us\n";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let option = |name: &str, default: &str| {
        let at = words.iter().position(|word| word == name);
        let value = at.and_then(|at| words.get(at + 1));
        value.cloned().unwrap_or_else(|| default.to_owned())
    };
    let media = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/media/fractal.ts");
    let file = std::fs::read(option("--file", media))?;
    let predict = option("--predict", "");
    let seconds: u64 = option("--seconds", "4").parse()?;
    let (mut table, mut prediction) = (CSV_HEAD.to_owned(), String::new());
    print!("{CSV_HEAD}");
    for clients in option("--clients", "100,1000,2000,3500,5000").split(',') {
        for back_end in [BackEnd::Loop, BackEnd::Clone] {
            let watched = back_end == BackEnd::Loop && clients == "1000" && !predict.is_empty();
            let watcher = watched.then_some(predict.as_str());
            let (row, said) = run(clients.parse()?, back_end, watcher, &file, seconds)?;
            print!("{row}{said}");
            table += &row;
            prediction += &said;
        }
    }
    let out = option("--out", "");
    if !out.is_empty() {
        std::fs::create_dir_all(&out)?;
        std::fs::write(format!("{out}/E55-E56.csv"), &table)?;
        std::fs::write(format!("{out}/E57.txt"), prediction)?;
        let cpu = chart("E55: the server's CPU", "CPU, per cent", &table, 2);
        std::fs::write(format!("{out}/E55.svg"), cpu.svg())?;
        let rate = chart("E56: rate per client, of 100 kbit/s", "kbit/s", &table, 4);
        std::fs::write(format!("{out}/E56.svg"), rate.svg())?;
    }
    Ok(())
}

/// A column of the table against the number of clients.
fn chart(title: &str, y_label: &'static str, table: &str, column: usize) -> Chart {
    let line = |back_end: BackEnd| {
        let rows = table.lines().map(|row| row.split(',').collect::<Vec<_>>());
        let mine = rows.filter(|cells| cells[0] == back_end.name());
        let point = |cells: Vec<&str>| Some((cells[1].parse().ok()?, cells[column].parse().ok()?));
        (back_end.to_string(), mine.filter_map(point).collect())
    };
    Chart {
        title: title.to_owned(),
        x_label: "clients",
        y_label,
        x_log: false,
        lines: [BackEnd::Loop, BackEnd::Clone].map(line).to_vec(),
    }
}

/// Serves so many clients by a back-end; a row of the table.
fn run(
    count: usize,
    back_end: BackEnd,
    watcher: Option<&str>,
    file: &[u8],
    seconds: u64,
) -> Result<(String, String), Box<dyn Error>> {
    server::raise_descriptors(count as u64 + 100)?;
    let wire = Wire::new(1500)?;
    wire.fix_neighbours()?;
    let mut clients = wire.far.run(|| clients::gather(count))?;
    let addresses: Vec<SocketAddr> = clients.iter().map(|client| client.address).collect();
    let packets = seconds * 1_000_000_000 / server::interval().as_nanos() as u64;
    let (stop, stopped) = (AtomicBool::new(false), AtomicBool::new(false));
    let ((paced, unpaced), watching) = std::thread::scope(|scope| {
        let listener = scope.spawn(|| {
            clients::listen(&mut clients, file, &stop);
            stopped.store(true, Ordering::Release);
        });
        let served = wire.near.run(|| {
            let watching = watcher.map(|program| watch(program, seconds));
            let served = serve(back_end, &addresses, file, packets, &|| {
                // The clients take what is in their queues and leave before the unpaced run.
                std::thread::sleep(Duration::from_millis(300));
                stop.store(true, Ordering::Release);
                while !stopped.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            served.map(|reports| (reports, watching))
        });
        stop.store(true, Ordering::Release);
        listener.join().expect("the clients do not fail");
        served
    })?;
    let prediction = match watching {
        Some(child) => String::from_utf8(child?.wait_with_output()?.stdout)?,
        None => String::new(),
    };
    Ok((row(back_end, &clients, paced, unpaced), prediction))
}

/// Starts the program that watches the calling thread and predicts.
fn watch(program: &str, seconds: u64) -> std::io::Result<Child> {
    // SAFETY: takes nothing and touches no memory.
    let thread = unsafe { libc::gettid() };
    Command::new(program)
        .args([
            "predict",
            "--payload",
            "952",
            "--pid",
            &std::process::id().to_string(),
        ])
        .args(["--thread", &thread.to_string()])
        .args(["--seconds", &seconds.saturating_sub(1).max(1).to_string()])
        .stdout(Stdio::piped())
        .spawn()
}

/// The paced run, then the unpaced one, which nobody listens to.
fn serve(
    back_end: BackEnd,
    addresses: &[SocketAddr],
    file: &[u8],
    packets: u64,
    between: &dyn Fn(),
) -> Result<(Report, Report), groupcast::Error> {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
    let mut sender = Sender::with(vec![socket], back_end)?;
    let mut group = server::audience(addresses);
    let paced = server::serve(&mut sender, &mut group, file, packets, true)?;
    between();
    let unpaced = server::serve(&mut sender, &mut group, file, UNPACED, false)?;
    Ok((paced, unpaced))
}

fn row(back_end: BackEnd, clients: &[Client], paced: Report, unpaced: Report) -> String {
    let seconds = (server::interval() * paced.packets as u32).as_secs_f64();
    let rate = |client: &Client| {
        let headers = client.packets * server::HEADER_BYTES as u64;
        (client.bytes - headers) as f64 * 8.0 / 1000.0 / seconds
    };
    let count = clients.len() as f64;
    let mean = clients.iter().map(rate).sum::<f64>() / count;
    let min = clients.iter().map(rate).fold(f64::INFINITY, f64::min);
    let wrong: u64 = clients.iter().map(|client| client.wrong).sum();
    let jitter = clients.iter().map(|client| client.jitter_ns).sum::<f64>() / count / 1000.0;
    // A server is saturated when a packet takes all clients' time until the next.
    let per_packet = unpaced.wall.as_secs_f64() / unpaced.packets as f64;
    let saturation = count * server::interval().as_secs_f64() / per_packet;
    let cpu = 100.0 * paced.cpu.as_secs_f64() / paced.wall.as_secs_f64();
    let mut row = String::new();
    let written = writeln!(
        row,
        "{back_end},{},{cpu:.2},{saturation:.0},{mean:.2},{min:.2},{},{jitter:.0}",
        clients.len(),
        wrong + paced.failed
    );
    debug_assert!(written.is_ok(), "strings grow");
    row
}
