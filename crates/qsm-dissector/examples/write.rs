//! Prints the dissector: `cargo run -p qsm-dissector --example write > crates/qsm-dissector/quicksilver.lua`.

fn main() {
    print!("{}", qsm_dissector::dissector());
}
