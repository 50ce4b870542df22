//! Bytes that other languages are held to: `golden.txt`. `UPDATE_GOLDEN=1 cargo test -p qsm-object
//! --test golden` writes it.

use std::collections::BTreeMap;
use std::path::Path;

use qsm_object::{Schema, Typed, encode};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Everything {
    yes: bool,
    byte: u8,
    wide: u64,
    widest: u128,
    small: i8,
    signed: i64,
    lowest: i128,
    short: f32,
    long: f64,
    text: String,
    data: Vec<u8>,
    note: Option<String>,
    nothing: Option<String>,
    levels: Vec<Level>,
    sizes: BTreeMap<String, u16>,
    side: Side,
}

impl Typed for Everything {
    const TYPE: u32 = 300;
    const VERSION: u16 = 3;
}

#[derive(Debug, Serialize, Deserialize)]
struct Level {
    price: f64,
    size: u32,
}

#[derive(Debug, Serialize, Deserialize)]
enum Side {
    Buy,
    Sell,
}

/// As a schema has it.
const SCHEMA: &str = "
type Everything = 300 v3 {
    yes: bool, byte: u8, wide: u64, widest: u128, small: i8, signed: i64, lowest: i128,
    short: f32, long: f64, text: string, data: bytes, note: string?, nothing: string?,
    levels: [Level], sizes: {string: u16}, side: Side,
}
struct Level { price: f64, size: u32 }
enum Side { Buy, Sell }
";

fn message() -> Vec<u8> {
    let level = |price, size| Level { price, size };
    let sizes = [("a", 1), ("b", 65_535)].map(|(name, size)| (name.to_owned(), size));
    let object = Everything {
        yes: true,
        byte: 200,
        wide: u64::MAX,
        widest: u128::MAX,
        small: i8::MIN,
        signed: i64::MIN,
        lowest: i128::MIN,
        short: 1.5,
        long: -0.1,
        text: "grün".to_owned(),
        data: vec![0, 0xff],
        note: Some("n".to_owned()),
        nothing: None,
        levels: vec![level(0.5, 300), level(-1.0, 0)],
        sizes: BTreeMap::from(sizes),
        side: Side::Sell,
    };
    encode(&object).unwrap()
}

#[test]
fn the_bytes_are_the_golden_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden.txt");
    let hexadecimal: String = message().iter().map(|byte| format!("{byte:02x}")).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{hexadecimal}\n")).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap().trim_end(),
        hexadecimal
    );
}

#[test]
fn a_schema_reads_them() {
    let schema = Schema::parse(SCHEMA).unwrap();
    let message = message();
    let read = schema.read(&message).unwrap();
    assert_eq!(
        read.value.to_string(),
        "{\"byte\":200,\"data\":\"00ff\",\
         \"levels\":[{\"price\":0.5,\"size\":300},{\"price\":-1.0,\"size\":0}],\
         \"long\":-0.1,\"lowest\":\"-170141183460469231731687303715884105728\",\"note\":\"n\",\
         \"nothing\":null,\"short\":1.5,\"side\":\"Sell\",\"signed\":-9223372036854775808,\
         \"sizes\":{\"a\":1,\"b\":65535},\"small\":-128,\"text\":\"grün\",\
         \"wide\":18446744073709551615,\"widest\":\"340282366920938463463374607431768211455\",\
         \"yes\":true}"
    );
}
