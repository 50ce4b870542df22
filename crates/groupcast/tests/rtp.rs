//! The RTP server of the example, in small: every client gets its own stream, whole.

#[path = "../examples/rtp_live/clients.rs"]
mod clients;
#[path = "../examples/rtp_live/server.rs"]
mod server;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use groupcast::wire::{Namespace, Wire};
use groupcast::{BackEnd, Sender};

const CLIENTS: usize = 200;
const PACKETS: u64 = 20;
/// A datagram that takes longer is lost.
const ARRIVAL_MAX: Duration = Duration::from_secs(5);

#[test]
fn rtp_clients_receive_sequence_and_content_without_a_gap() {
    if let Err(error) = Namespace::new() {
        return lab::skip(error);
    }
    let media = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/media/fractal.ts");
    let file = std::fs::read(media).unwrap();
    assert!(
        file.chunks(188).all(|packet| packet[0] == 0x47),
        "a transport stream"
    );
    server::raise_descriptors(1000).unwrap();
    for back_end in [BackEnd::Loop, BackEnd::Clone] {
        let wire = Wire::new(1500).unwrap();
        let mut clients = wire.far.run(|| clients::gather(CLIENTS)).unwrap();
        let addresses: Vec<_> = clients.iter().map(|client| client.address).collect();
        let stop = AtomicBool::new(false);
        let report = std::thread::scope(|scope| {
            let listener = scope.spawn(|| clients::listen(&mut clients, &file, &stop));
            let report = wire.near.run(|| {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                let mut sender = Sender::with(vec![socket], back_end).unwrap();
                let mut group = server::audience(&addresses);
                server::serve(&mut sender, &mut group, &file, PACKETS, true).unwrap()
            });
            stop.store(true, Ordering::Release);
            listener.join().unwrap();
            report
        });
        // What is still on its way.
        let patience = Instant::now() + ARRIVAL_MAX;
        while clients.iter().any(|client| client.packets < PACKETS) && Instant::now() < patience {
            clients::listen(&mut clients, &file, &stop);
            std::thread::yield_now();
        }
        assert_eq!((report.packets, report.failed), (PACKETS, 0));
        assert!(report.cpu < report.wall, "paced: it sleeps between packets");
        let bytes = (server::PAYLOAD_BYTES + server::HEADER_BYTES) as u64;
        for client in &clients {
            assert_eq!(
                (client.packets, client.wrong),
                (PACKETS, 0),
                "{back_end}: {client:?}"
            );
            assert_eq!(client.bytes, PACKETS * bytes);
            assert!(client.jitter_ns > 0.0);
        }
    }
}
