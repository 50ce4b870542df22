//! Objects, written by serde and read by it and by a schema.

use std::collections::BTreeMap;

use proptest::prelude::*;
use qsm_object::{Cause, Header, ObjectError, Schema, Typed, decode, encode};
use serde::{Deserialize, Serialize};
use serde_json::json;

const SCHEMA: &str = "\
# All forms.
type Everything = 300 v2 {
    yes: bool, byte: u8, wide: u64, widest: u128, small: i8, signed: i64, lowest: i128,
    short: f32, long: f64, text: string, data: bytes, note: string?, levels: [Level],
    sizes: {string: u16}, sides: [Side],
    ages: {u8: u8},
}
type Everything = 300 { yes: bool }
type Other = 4000000000 v65535 { level: Level, }
struct Level { price: f64, size: u32 }
enum Side { Buy, Sell, Limit(f64), Nested(Level) }
";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    levels: Vec<Level>,
    sizes: BTreeMap<String, u16>,
    sides: Vec<Side>,
    ages: BTreeMap<u8, u8>,
}

impl Typed for Everything {
    const TYPE: u32 = 300;
    const VERSION: u16 = 2;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Level {
    price: f64,
    size: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Other {
    level: Level,
}

impl Typed for Other {
    const TYPE: u32 = 4_000_000_000;
    const VERSION: u16 = 65_535;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Side {
    Buy,
    Sell,
    Limit(f64),
    Nested(Level),
}

fn schema() -> Schema {
    Schema::parse(SCHEMA).expect("the schema is one")
}

fn level() -> impl Strategy<Value = Level> {
    (-1e9..1e9, any::<u32>()).prop_map(|(price, size)| Level { price, size })
}

prop_compose! {
    fn everything()(
        numbers: (bool, u8, u64, u128, i8, i64, i128),
        floats in (-1e9f32..1e9, -1e9..1e9),
        text: String,
        data: Vec<u8>,
        note: Option<String>,
        levels in proptest::collection::vec(level(), 0..5),
        sizes: BTreeMap<String, u16>,
        sides in proptest::collection::vec((0..4u8, level()), 0..5),
        ages: BTreeMap<u8, u8>,
    ) -> Everything {
        let (yes, byte, wide, widest, small, signed, lowest) = numbers;
        let (short, long) = floats;
        let side = |(variant, level): (u8, Level)| match variant {
            0 => Side::Buy,
            1 => Side::Sell,
            2 => Side::Limit(level.price),
            _ => Side::Nested(level),
        };
        let sides = sides.into_iter().map(side).collect();
        Everything {
            yes, byte, wide, widest, small, signed, lowest, short, long, text, data, note, levels,
            sizes, sides, ages,
        }
    }
}

/// As the schema shows it: what serde's JSON has, but for what that lacks.
fn shown(object: &Everything) -> serde_json::Value {
    // Set below: JSON of serde has no such numbers.
    let (widest, lowest) = (0, 0);
    let narrow = Everything {
        widest,
        lowest,
        ..object.clone()
    };
    let mut shown = serde_json::to_value(narrow).unwrap();
    let hexadecimal = object.data.iter().map(|byte| format!("{byte:02x}"));
    shown["data"] = json!(hexadecimal.collect::<String>());
    let text = |number: String| {
        number
            .parse::<i64>()
            .map_or_else(|_| json!(number), |n| json!(n))
    };
    shown["widest"] = match u64::try_from(object.widest) {
        Ok(number) => json!(number),
        Err(_) => json!(object.widest.to_string()),
    };
    shown["lowest"] = text(object.lowest.to_string());
    shown["short"] = json!(object.short.to_string().parse::<f64>().unwrap());
    shown["ages"] = json!(object.ages.iter().collect::<Vec<_>>());
    shown
}

proptest! {
    #[test]
    fn what_is_written_is_read(object in everything()) {
        let message = encode(&object).unwrap();
        prop_assert_eq!(&decode::<Everything>(&message).unwrap(), &object);
        let schema = schema();
        let read = schema.read(&message).unwrap();
        prop_assert_eq!((read.name, read.version), ("Everything", 2));
        // The order of fields is not compared by `Value`.
        prop_assert_eq!(read.value, shown(&object));
    }

    #[test]
    fn a_message_that_is_cut_short_is_refused(object in everything(), cut: prop::sample::Index) {
        let message = encode(&object).unwrap();
        let cut = &message[..cut.index(message.len())];
        prop_assert!(decode::<Everything>(cut).is_err());
        prop_assert!(schema().read(cut).is_err());
    }

    #[test]
    fn nonsense_never_panics(mut message: Vec<u8>) {
        let mut typed = Vec::new();
        Header { kind: 300, version: 2 }.append(&mut typed);
        typed.append(&mut message);
        let schema = schema();
        let (by_type, by_schema) = (decode::<Everything>(&typed), schema.read(&typed));
        // Both, or neither: but postcard does not look at the bits of a flag beyond the lowest.
        if by_schema.is_ok() {
            prop_assert!(by_type.is_ok());
        }
    }
}

#[test]
fn the_bytes_are_these() {
    let level = Level {
        price: 0.5,
        size: 300,
    };
    let message = encode(&Other { level }).unwrap();
    // Type, version, the bits of 0.5, 300.
    let expected = [
        0x80, 0xd0, 0xac, 0xf3, 0x0e, 0xff, 0xff, 0x03, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f, 0xac, 0x02,
    ];
    assert_eq!(message, expected);
    let header = Header {
        kind: 300,
        version: 1,
    };
    let (found, body) = Header::split(&[0xac, 0x02, 1, 9]).unwrap();
    assert_eq!((found, body), (header, &[9][..]));
}

#[test]
fn types_and_versions_that_are_not_known_are_named() {
    let unknown = |kind, version| {
        let mut message = Vec::new();
        Header { kind, version }.append(&mut message);
        let by_schema = schema().read(&message).unwrap_err().to_string();
        (decode::<Everything>(&message).unwrap_err(), by_schema)
    };
    let (by_type, by_schema) = unknown(7, 1);
    let known = vec![300];
    assert_eq!(by_type, ObjectError::UnknownType { found: 7, known });
    assert!(
        by_schema.starts_with("type 7 is not known, but 300, 4000000000; "),
        "{by_schema}"
    );
    let (by_type, by_schema) = unknown(300, 3);
    assert!(matches!(
        by_type,
        ObjectError::UnknownVersion { found: 3, .. }
    ));
    assert!(by_schema.starts_with("version 3 of Everything is not known, but 1, 2; "));
    assert_eq!(schema().read(b"").unwrap_err(), ObjectError::NoObject);
    assert_eq!(
        decode::<Other>(&[0xff; 9]).unwrap_err(),
        ObjectError::NoObject
    );
}

#[test]
fn the_place_of_a_fault_is_named() {
    let level = Level {
        price: 0.5,
        size: 1,
    };
    let mut message = encode(&Other { level }).unwrap();
    message.push(0);
    let long = schema().read(&message).unwrap_err().to_string();
    assert!(
        long.starts_with("Other v65535: the message goes on for 1 bytes;"),
        "{long}"
    );
    message.truncate(message.len() - 2);
    let short = schema().read(&message).unwrap_err().to_string();
    assert!(
        short.starts_with("Other v65535.level.size: the message ends too early;"),
        "{short}"
    );
    assert!(matches!(
        decode::<Other>(&message),
        Err(ObjectError::Body {
            cause: Cause::Short,
            ..
        })
    ));
}

#[test]
fn numbers_that_json_lacks_are_text() {
    let schema = Schema::parse("type F = 1 { a: f32, b: f64, c: f64 }").unwrap();
    let mut message = vec![1, 1];
    message.extend(f32::NAN.to_le_bytes());
    message.extend(f64::INFINITY.to_le_bytes());
    message.extend((-0.0f64).to_le_bytes());
    let value = schema.read(&message).unwrap().value;
    assert_eq!(value.to_string(), r#"{"a":"NaN","b":"inf","c":-0.0}"#);
}

#[test]
fn objects_within_objects_have_a_limit() {
    let text = "type T = 1 { node: Node } struct Node { next: Node? }";
    let schema = Schema::parse(text).unwrap();
    let deep = |depth| [vec![1, 1], vec![1; depth], vec![0]].concat();
    assert!(schema.read(&deep(60)).is_ok());
    let error = schema.read(&deep(100_000)).unwrap_err();
    assert!(matches!(
        error,
        ObjectError::Body {
            cause: Cause::Deep,
            ..
        }
    ));
}

#[test]
fn a_list_is_not_longer_than_its_message() {
    let schema = Schema::parse("type T = 1 { list: [u8] }").unwrap();
    let endless = [&[1, 1][..], &[0xff; 9], &[1]].concat();
    let error = schema.read(&endless).unwrap_err();
    assert!(matches!(
        error,
        ObjectError::Body {
            cause: Cause::Short,
            ..
        }
    ));
}

#[test]
fn faults_of_a_schema_are_named_with_their_line() {
    let cases = [
        ("type", 1, "the end where a name should be"),
        ("type T { a: u8 }", 1, "`{` where `=` should be"),
        (
            "type T = x { a: u8 }",
            1,
            "`x` where the number of the type",
        ),
        ("type T = 1 v70000 { a: u8 }", 1, "`70000` where a version"),
        (
            "type T = 1 {\n a: u9 }",
            2,
            "u9 is not defined; write `struct u9",
        ),
        ("type T = 1 { a: u8 b: u8 }", 1, "`b` where `}` should be"),
        ("type T = 1 { a: u8, a: u8 }", 1, "there are two fields a"),
        (
            "type T = 1 { a: u8 }\ntype U = 1 { b: u8 }",
            2,
            "U has number 1 v1 of T;",
        ),
        (
            "struct S { a: u8 }\n\nenum S { A }",
            3,
            "S is defined already",
        ),
        ("struct S { }", 1, "S has no content"),
        ("struct A { b: B } struct B { a: A }", 1, "A has no content"),
        ("struct S { a: [u8 }", 1, "`}` where `]` should be"),
        (
            "colour red",
            1,
            "`colour` where `type`, `struct` or `enum` should be",
        ),
        ("type T = 1 { a: u8 } $", 1, "'$' means nothing here"),
    ];
    for (text, line, reason) in cases {
        let error = Schema::parse(text).expect_err(text);
        assert_eq!(error.line, line, "{text}");
        assert!(error.reason.starts_with(reason), "{text}: {error}");
    }
    let deep = format!("type T = 1 {{ a: {}u8", "[".repeat(100_000));
    assert!(
        Schema::parse(&deep)
            .unwrap_err()
            .reason
            .contains("a form less deep")
    );
    assert!(Schema::parse("").is_ok());
}
