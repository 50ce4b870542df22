//! Writes formats down as tables of Lua.

use std::collections::BTreeMap;

use qsm_wire::{HEADER_BYTES, Kind, SEALED, VERSION};

use crate::format::{Count, Field, Number, Shape, Variant};
use crate::packets::{HEADER, MARKS_MAX, PACKETS};

/// The reader of packets, which the tables precede.
const ENGINE: &str = include_str!("engine.lua");

/// The dissector, as Lua: copy it to a folder of plugins of Wireshark.
#[must_use]
pub fn dissector() -> String {
    let mut out = String::from(
        "-- Quicksilver's packets in Wireshark and tshark. The tables are generated from the formats in\n\
         -- crates/qsm-dissector; `qsm dissector` prints this file.\n\n",
    );
    constants(&mut out);
    fields(&mut out);
    packets(&mut out);
    out.push('\n');
    out.push_str(ENGINE);
    out
}

fn constants(out: &mut String) {
    line(out, &format!("local VERSION = {VERSION}"));
    line(out, &format!("local SEALED = {SEALED}"));
    line(out, &format!("local HEADER_BYTES = {HEADER_BYTES}"));
    line(out, &format!("local MARKS_MAX = {MARKS_MAX}\n"));
}

/// All fields by name. A name means the same wherever it occurs.
fn fields(out: &mut String) {
    let mut all = BTreeMap::new();
    collect(HEADER, &mut all);
    for packet in PACKETS {
        collect(packet.fields, &mut all);
    }
    line(out, "local FIELDS = {");
    for field in all.values() {
        let says = quoted(field.says);
        let form = form(field);
        let (name, label) = (field.name, capital(&field.label()));
        line(
            out,
            &format!("  [\"{name}\"] = {{ label = \"{label}\", says = {says}, {form} }},"),
        );
    }
    line(out, "}\n");
}

fn collect(fields: &[Field], all: &mut BTreeMap<&'static str, Field>) {
    for field in fields {
        all.insert(field.name, *field);
        for inner in field.shape.inner() {
            collect(&[*inner], all);
        }
    }
}

fn form(field: &Field) -> String {
    match field.shape {
        Shape::Number(number) => number_form(number),
        Shape::Flag | Shape::Bit => "kind = \"flag\"".to_owned(),
        Shape::Origin => "kind = \"origin\"".to_owned(),
        Shape::Address => "kind = \"address\"".to_owned(),
        Shape::Text => "kind = \"text\"".to_owned(),
        Shape::Range => "kind = \"range\"".to_owned(),
        Shape::Bytes => "kind = \"bytes\"".to_owned(),
        Shape::Record(inner) => format!("kind = \"record\", fields = {}", names(inner)),
        Shape::Optional(value) => format!("kind = \"optional\", value = \"{}\"", value.name),
        Shape::List(list) => {
            let count = match list.count {
                Count::Before => String::new(),
                Count::Field(name) => format!(", count = \"{name}\", max = {}", list.max),
            };
            format!("kind = \"list\", entry = \"{}\"{count}", list.entry.name)
        }
        Shape::Choice(variants) => format!("kind = \"choice\", variants = {}", choice(variants)),
        Shape::Special(reader, _) => format!("kind = \"{reader}\""),
    }
}

fn number_form(number: Number) -> String {
    let mut form = format!("kind = \"number\", bytes = {}", number.bytes);
    if number.hex {
        form.push_str(", hex = true");
    }
    if number.min > 0 {
        form.push_str(&format!(", min = {}", number.min));
    }
    if !number.unit.is_empty() {
        form.push_str(&format!(", unit = {}", quoted(number.unit)));
    }
    if !number.all_ones.is_empty() {
        form.push_str(&format!(", all_ones = {}", quoted(number.all_ones)));
    }
    if !number.names.is_empty() {
        let names = number
            .names
            .iter()
            .map(|(value, name)| format!("[{value}] = {}", quoted(name)));
        form.push_str(&format!(
            ", names = {{ {} }}",
            names.collect::<Vec<_>>().join(", ")
        ));
    }
    form
}

fn choice(variants: &[Variant]) -> String {
    let rows = variants.iter().map(|variant| {
        let (number, fields) = (variant.number, names(variant.fields));
        format!(
            "    [{number}] = {{ name = \"{}\", fields = {fields} }},\n",
            variant.name
        )
    });
    format!("{{\n{}  }}", rows.collect::<String>())
}

fn packets(out: &mut String) {
    line(out, &format!("local HEADER = {}\n", names(HEADER)));
    line(out, "local PACKETS = {");
    for packet in PACKETS {
        let number = packet.kind as u8;
        let check = match packet.check {
            "" => String::new(),
            check => format!(", check = \"{check}\""),
        };
        let brief: Vec<Field> = packet
            .fields
            .iter()
            .filter(|field| field.brief)
            .copied()
            .collect();
        let name = name_of(packet.kind);
        line(out, &format!("  [{number}] = {{ name = \"{name}\"{check},"));
        line(out, &format!("    fields = {},", names(packet.fields)));
        line(out, &format!("    brief = {} }},", names(&brief)));
    }
    line(out, "}");
}

fn name_of(kind: Kind) -> String {
    format!("{kind:?}")
}

fn names(fields: &[Field]) -> String {
    if fields.is_empty() {
        return "{}".to_owned();
    }
    let names: Vec<String> = fields
        .iter()
        .map(|field| format!("\"{}\"", field.name))
        .collect();
    format!("{{ {} }}", names.join(", "))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}
