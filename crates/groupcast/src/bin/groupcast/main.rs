use groupcast::*;
use std::net::UdpSocket;
use std::time::Instant;
fn main() {
    let wire = wire::Wire::new(1500).unwrap();
    let discard = std::env::args().nth(1).is_some();
    wire.fix_neighbours().unwrap();
    let sink = wire.far.run(|| UdpSocket::bind("0.0.0.0:9000").unwrap());
    wire.near.run(|| {
        let d = discard.then(|| Discard::attach("wire0").unwrap());
        let s = UdpSocket::bind("0.0.0.0:4000").unwrap();
        let t = Instant::now();
        let auto = Sender::new(vec![s]).unwrap();
        println!("{} in {:?}", auto.choice(), t.elapsed());
        drop(auto);
        for b in BackEnd::ALL {
            let s = UdpSocket::bind("0.0.0.0:0").unwrap();
            let mut sender = match Sender::with(vec![s], b) { Ok(s) => s, Err(e) => { println!("{b}: {e}"); continue } };
            let mut group = Group::new();
            for n in 1..=1000 { group.add(&Recipient::new((wire::Wire::receiver_v4(n), 9000).into())).unwrap(); }
            let payload = vec![7u8; 1000];
            let mut errors = vec![Errno::SENT; 1000];
            let n = sender.send_group(&Message::new(&payload), &group, Some(&mut errors)).unwrap();
            let bad = errors.iter().find(|e| !e.sent());
            let mut ts: Vec<f64> = (0..50).map(|_| { let t = Instant::now(); sender.send_group(&Message::new(&payload), &group, None).unwrap(); t.elapsed().as_nanos() as f64 / 1000.0 }).collect();
            ts.sort_by(f64::total_cmp);
            println!("{b:<12} sent {n} {bad:?} {:.0} ns/recipient {:?} {:?}", ts[25], sender.stats(), d.as_ref().map(|d| d.packets()));
        }
    });drop(sink);
}
