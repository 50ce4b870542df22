//! The tables of formats and PROTOCOL.md say the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use qsm_dissector::{FROM_SERVICE, Field, HEADER, PACKETS, Shape, TO_SERVICE, UPDATES, Variant};
use qsm_wire::{DATA_HEADER_BYTES, HEADER_BYTES, Kind};

fn of_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn every_kind_has_a_format() {
    let kinds: Vec<Kind> = PACKETS.iter().map(|packet| packet.kind).collect();
    assert_eq!(kinds, Kind::ALL);
}

/// The header's and data's lengths, which the decoder knows as numbers.
#[test]
fn fixed_parts_are_as_long_as_the_decoder_says() {
    assert_eq!(Shape::Record(HEADER).bytes(), Some(HEADER_BYTES));
    let data = PACKETS[0].fields.split_last().expect("it has chunks").1;
    let bytes: Option<usize> = data.iter().map(|field| field.shape.bytes()).sum();
    assert_eq!(bytes, Some(DATA_HEADER_BYTES - HEADER_BYTES));
}

/// One name in display filters is one thing.
#[test]
fn a_name_means_the_same_everywhere() {
    let mut all: BTreeMap<&str, String> = BTreeMap::new();
    check_names(HEADER, &mut all);
    for packet in PACKETS {
        check_names(packet.fields, &mut all);
    }
    assert!(all.len() > 100);
}

fn check_names(fields: &[Field], all: &mut BTreeMap<&'static str, String>) {
    for field in fields {
        let meaning = format!("{} {:?}", field.says, field.shape);
        let before = all.insert(field.name, meaning.clone());
        assert!(
            before.as_ref().is_none_or(|before| *before == meaning),
            "{}: {meaning}\nand {before:?}",
            field.name
        );
        for inner in field.shape.inner() {
            check_names(&[*inner], all);
        }
    }
}

fn protocol() -> String {
    fs::read_to_string(of_crate("../../PROTOCOL.md")).expect("PROTOCOL.md can be read")
}

/// The text from one heading to the next of the same or a higher level.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let start = text.find(&format!("\n{heading}\n"));
    let start = start.unwrap_or_else(|| panic!("PROTOCOL.md has no {heading:?}"));
    let rest = &text[start + heading.len() + 2..];
    let level = heading.split(' ').next().unwrap_or_default().len();
    let end = rest.match_indices("\n#").find(|(at, _)| {
        let marks = rest[at + 1..].chars().take_while(|letter| *letter == '#');
        marks.count() <= level
    });
    &rest[..end.map_or(rest.len(), |(at, _)| at)]
}

#[test]
fn kinds_are_those_of_the_protocol() {
    let text = protocol();
    let rows = table_rows(section(&text, "## 4. Messages"));
    let listed: Vec<(String, String)> = rows
        .iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    let ours = PACKETS.iter().map(|packet| {
        (
            (packet.kind as u8).to_string(),
            format!("{:?}", packet.kind),
        )
    });
    assert_eq!(listed, ours.collect::<Vec<_>>());
}

/// Rows of all tables, but the heads.
fn table_rows(text: &str) -> Vec<Vec<String>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut rows = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let is_head = lines
            .get(number + 1)
            .is_some_and(|next| next.starts_with("|---"));
        if line.starts_with("| ") && !is_head {
            let cells = line.trim_matches('|').split(" | ");
            rows.push(cells.map(|cell| cell.trim().to_owned()).collect());
        }
    }
    rows
}

// ---- Drawings ----

/// A box of a drawing: the offset above its left edge, if there is one, and its label.
type Drawn = (Option<usize>, String);

/// The drawings of a section, each as its boxes from left to right and top to bottom.
fn drawings(text: &str) -> Vec<Vec<Drawn>> {
    let mut found: Vec<Vec<Drawn>> = Vec::new();
    let mut offsets = String::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if inside && line.starts_with('|') {
            for (number, boxes) in boxes_of(line, &offsets).into_iter().enumerate() {
                let starts_anew = boxes[0].0.is_none_or(|offset| offset == 24 || offset == 0);
                if number > 0 || starts_anew || found.is_empty() {
                    found.push(boxes);
                } else if let Some(last) = found.last_mut() {
                    last.extend(boxes);
                }
            }
        } else if inside && !line.starts_with('+') {
            line.clone_into(&mut offsets);
        }
    }
    found
}

/// The boxes of a line; an empty one parts drawings that stand side by side.
fn boxes_of(line: &str, offsets: &str) -> Vec<Vec<Drawn>> {
    let edges: Vec<usize> = line.match_indices('|').map(|(at, _)| at).collect();
    let mut drawings = vec![Vec::new()];
    for (number, edge) in edges.iter().enumerate() {
        let end = edges.get(number + 1).copied().unwrap_or(line.len());
        let label = line[edge + 1..end].trim().trim_end_matches("...").trim();
        // What is said behind a drawing is no box of it.
        let is_last = number + 1 == edges.len();
        if is_last && (line.ends_with('|') || line[edge + 1..].starts_with("       ")) {
            continue;
        }
        if label.is_empty() {
            drawings.push(Vec::new());
            continue;
        }
        if let Some(boxes) = drawings.last_mut() {
            boxes.push((
                offset_above(offsets, line[..*edge].chars().count()),
                label.to_owned(),
            ));
        }
    }
    drawings.retain(|boxes| !boxes.is_empty());
    drawings
}

/// The number at a column or right behind it.
fn offset_above(offsets: &str, column: usize) -> Option<usize> {
    let rest = offsets.get(column..)?;
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let behind = rest[digits.len()..].chars().next();
    let whole = behind.is_none_or(|letter| letter == ' ');
    digits.parse().ok().filter(|_| whole)
}

/// The fields as boxes, with offsets as far as they are fixed.
fn boxes(fields: &[Field], start: usize) -> Vec<Drawn> {
    let mut at = Some(start);
    let mut boxes = Vec::new();
    for field in fields {
        let labels = field.drawing();
        for (number, label) in split_fields(&labels).into_iter().enumerate() {
            boxes.push((at.filter(|_| number == 0), label));
        }
        at = at.and_then(|at| field.shape.bytes().map(|bytes| at + bytes));
    }
    boxes
}

#[track_caller]
fn assert_drawn(drawn: &[Drawn], fields: &[Field], start: usize, what: &str) {
    let expected = boxes(fields, start);
    let labels = |boxes: &[Drawn]| {
        boxes
            .iter()
            .map(|(_, label)| label.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(labels(drawn), labels(&expected), "{what}");
    for ((drawn, label), (expected, _)) in drawn.iter().zip(&expected) {
        let same = drawn.is_none() || expected.is_none() || drawn == expected;
        assert!(same, "{what}: {label} at {drawn:?}, not {expected:?}");
    }
}

fn fields_of(kind: Kind) -> &'static [Field] {
    let format = PACKETS.iter().find(|packet| packet.kind == kind);
    format.expect("every kind has a format").fields
}

#[test]
fn drawings_of_the_protocol_have_the_same_fields_at_the_same_places() {
    let text = protocol();
    let formats = section(&text, "## 5. Formats");
    let header = drawings(section(formats, "### Header: all packets")).concat();
    assert_drawn(&header, HEADER, 0, "header");
    let mut left: Vec<Kind> = Kind::ALL.to_vec();
    for heading in formats.lines().filter_map(|line| line.strip_prefix("### ")) {
        let kinds = kinds_of(heading);
        if kinds.is_empty() {
            continue;
        }
        let drawn = drawings(section(formats, &format!("### {heading}")));
        left.retain(|kind| !kinds.contains(kind));
        check_drawings(&kinds, &drawn, heading);
    }
    assert_eq!(left, [], "not drawn in PROTOCOL.md");
}

/// Kinds that a heading names, with the right numbers.
fn kinds_of(heading: &str) -> Vec<Kind> {
    let parts = heading.split(", ").filter_map(|part| part.split_once(' '));
    let kinds = parts.filter_map(|(number, name)| {
        let kind = Kind::ALL.iter().find(|kind| format!("{kind:?}") == name)?;
        assert_eq!((*kind as u8).to_string(), number, "{heading}");
        Some(*kind)
    });
    kinds.collect()
}

fn check_drawings(kinds: &[Kind], drawn: &[Vec<Drawn>], heading: &str) {
    let mut drawn = drawn.iter();
    for (number, kind) in kinds.iter().enumerate() {
        let fields = fields_of(*kind);
        let twin =
            number > 0 && format!("{fields:?}") == format!("{:?}", fields_of(kinds[number - 1]));
        if fields.is_empty() || twin {
            continue;
        }
        let boxes = drawn
            .next()
            .unwrap_or_else(|| panic!("{heading}: {kind:?} is not drawn"));
        assert_drawn(boxes, fields, HEADER_BYTES, heading);
    }
    // Entries that are drawn at their own offsets.
    for boxes in drawn {
        let entry = kinds.iter().flat_map(|kind| entries_of(fields_of(*kind)));
        let same = entry.into_iter().find(|fields| {
            let labels = |boxes: &[Drawn]| {
                boxes
                    .iter()
                    .map(|(_, label)| label.clone())
                    .collect::<Vec<_>>()
            };
            labels(&self::boxes(fields, 0)) == labels(boxes)
        });
        let same = same.unwrap_or_else(|| panic!("{heading}: nothing has the fields {boxes:?}"));
        assert_drawn(boxes, same, 0, heading);
    }
}

/// Records in lists, and what readers of their own read.
fn entries_of(fields: &'static [Field]) -> Vec<&'static [Field]> {
    let mut found = Vec::new();
    for field in fields {
        match field.shape {
            Shape::List(list) => {
                if let Shape::Record(fields) = list.entry.shape {
                    found.push(fields);
                }
            }
            Shape::Special(_, fields) => found.push(fields),
            _ => {}
        }
    }
    found
}

// ---- Membership messages ----

#[test]
fn membership_messages_are_those_of_the_protocol() {
    let text = protocol();
    let text = section(&text, "## 6. Membership messages");
    for (title, variants) in [
        ("node → service", TO_SERVICE),
        ("service → node", FROM_SERVICE),
        ("update in a Batch", UPDATES),
    ] {
        let start = text.find(&format!("| no. | {title} |"));
        let start = start.unwrap_or_else(|| panic!("no table {title:?}"));
        let end = text[start..]
            .find("\n\n")
            .map_or(text.len(), |end| start + end);
        let rows = table_rows(&text[start..end]);
        let mut listed = rows.iter().flat_map(|row| split_row(row));
        for variant in variants {
            let row = listed
                .next()
                .unwrap_or_else(|| panic!("no {} in {title}", variant.name));
            assert_variant(&row, variant);
        }
        assert_eq!(listed.next(), None, "{title}");
    }
}

/// A row that lists several messages of the same fields, as one for each.
fn split_row(row: &[String]) -> Vec<(String, String, String)> {
    let fields = row.get(2).cloned().unwrap_or_default();
    let pairs = row[0].split(", ").zip(row[1].split(", "));
    pairs
        .map(|(number, name)| (number.to_owned(), name.to_owned(), fields.clone()))
        .collect()
}

#[track_caller]
fn assert_variant(row: &(String, String, String), variant: &Variant) {
    let (number, name, fields) = row;
    assert_eq!(
        (number, name.as_str()),
        (&variant.number.to_string(), variant.name)
    );
    let listed = split_fields(fields.split(": percent").next().unwrap_or_default());
    assert_fields(&listed, variant.fields, name);
}

#[track_caller]
fn assert_fields(listed: &[String], fields: &[Field], what: &str) {
    let names: Vec<String> = listed.iter().map(|field| name_of(field)).collect();
    let ours: Vec<String> = fields.iter().map(Field::drawing).collect();
    assert_eq!(names, ours, "{what}");
    for (listed, field) in listed.iter().zip(fields) {
        let bytes = between(listed, '(', ')').and_then(|bytes| bytes.parse().ok());
        let same = bytes.is_none_or(|bytes: usize| field.shape.bytes() == Some(bytes));
        assert!(same, "{what}: {listed}");
        let inner = between(listed, '[', ']');
        if let (Some(inner), Shape::List(list)) = (inner, field.shape) {
            match list.entry.shape {
                Shape::Record(fields) if inner != "member" => {
                    assert_fields(&split_fields(inner), fields, what);
                }
                _ => assert_eq!(inner, list.entry.drawing(), "{what}"),
            }
        }
    }
}

/// Parts of a list, but not of lists in it.
fn split_fields(text: &str) -> Vec<String> {
    let mut depth = 0;
    let parts = text.split(|letter: char| {
        depth += i32::from(letter == '[' || letter == '(');
        depth -= i32::from(letter == ']' || letter == ')');
        letter == ',' && depth == 0
    });
    parts
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect()
}

fn name_of(field: &str) -> String {
    let name = field.split(['[', '(']).next().unwrap_or_default();
    name.trim().to_owned()
}

fn between(text: &str, from: char, to: char) -> Option<&str> {
    let (_, rest) = text.split_once(from)?;
    rest.rsplit_once(to).map(|(inner, _)| inner)
}

/// The rows of lists, which a sentence below the tables has.
#[test]
fn rows_are_those_of_the_protocol() {
    let text = protocol();
    let text = section(&text, "## 6. Membership messages");
    let (_, rows) = text.split_once("Rows: ").expect("a sentence about rows");
    let listed = split_fields(
        rows.split(".\n")
            .next()
            .unwrap_or_default()
            .trim_end_matches('.'),
    );
    let answers = FROM_SERVICE
        .iter()
        .filter(|variant| (5..=7).contains(&variant.number));
    for (listed, variant) in listed.iter().zip(answers) {
        let Shape::List(list) = variant.fields[1].shape else {
            panic!("{} has no rows", variant.name);
        };
        let Shape::Record(fields) = list.entry.shape else {
            panic!("rows of {} have no fields", variant.name);
        };
        let inner = between(listed, '[', ']').expect("fields of rows");
        assert_eq!(name_of(listed), variant.name.to_lowercase());
        assert_fields(&split_fields(inner), fields, variant.name);
    }
    assert_eq!(listed.len(), 3, "{listed:?}");
}
