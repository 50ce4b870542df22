//! A strict reader of Prometheus' text format, version 0.0.4, and of OpenMetrics 1.0.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;

/// Names and values, as written.
pub(crate) type Labels = Vec<(String, String)>;

/// Samples under one name.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) help: String,
    pub(crate) kind: String,
    pub(crate) samples: Vec<Sample>,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: Labels,
    pub(crate) value: String,
}

/// All families by name, or what is wrong.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, Family>, String> {
    if !text.ends_with('\n') {
        return Err("the last line does not end".to_owned());
    }
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        let wrong = |what: &str| format!("{what}: {line}");
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or_else(|| wrong("no help"))?;
            current = name.to_owned();
            let family = Family {
                help: unescaped(help, false)?,
                ..Family::default()
            };
            if !is_name(name) || families.insert(current.clone(), family).is_some() {
                return Err(wrong("not a name, or a family in two parts"));
            }
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| wrong("no type"))?;
            let family = families.get_mut(name).filter(|_| name == current);
            let family = family.ok_or_else(|| wrong("a type without help"))?;
            let known = ["counter", "gauge", "histogram"].contains(&kind);
            let suffix = name.ends_with("_total") == (kind == "counter");
            if !known || !suffix || !family.kind.is_empty() {
                return Err(wrong("type"));
            }
            family.kind = kind.to_owned();
        } else {
            let sample = sample(line)?;
            let family = families
                .get_mut(&current)
                .ok_or_else(|| wrong("no family"))?;
            if !belongs(&sample.name, &current, &family.kind) {
                return Err(wrong("a sample of another family"));
            }
            let same =
                |other: &Sample| (&other.name, &other.labels) == (&sample.name, &sample.labels);
            if family.samples.iter().any(same) {
                return Err(wrong("a sample twice"));
            }
            family.samples.push(sample);
        }
    }
    for (name, family) in families
        .iter()
        .filter(|(_, family)| family.kind == "histogram")
    {
        buckets(name, family)?;
    }
    Ok(families)
}

/// The families of a text of OpenMetrics, named as in the other format, or what is wrong.
pub(crate) fn parse_open(text: &str) -> Result<BTreeMap<String, Family>, String> {
    let text = text.strip_suffix("# EOF\n").ok_or("no end")?;
    if text.is_empty() {
        // Nobody is there that has metrics.
        return Ok(BTreeMap::new());
    }
    if text.contains("# EOF") || text.lines().any(str::is_empty) {
        return Err("something after the end, or an empty line".to_owned());
    }
    // Of a family: its type, then its unit if it has one, then its help; the other format has the
    // help first, no unit, and counters named as their samples.
    let (mut plain, mut kind, mut names) = (String::new(), ("", ""), Vec::new());
    for line in text.lines() {
        let wrong = |what: &str| format!("{what}: {line}");
        let part = |prefix: &str| {
            line.strip_prefix(prefix)
                .and_then(|rest| rest.split_once(' '))
        };
        if let Some(of) = part("# TYPE ") {
            kind = of;
            names.push(of.0);
            if of.0.ends_with("_total") || of.0.ends_with("_bucket") {
                return Err(wrong("a family with the name of a sample"));
            }
        } else if let Some((name, unit)) = part("# UNIT ") {
            if name != kind.0 || !name.ends_with(&format!("_{unit}")) {
                return Err(wrong("unit"));
            }
        } else if let Some((name, help)) = part("# HELP ") {
            if name != kind.0 || help.is_empty() {
                return Err(wrong("help"));
            }
            let total = if kind.1 == "counter" { "_total" } else { "" };
            let help = help.replace("\\\"", "\"");
            plain.push_str(&format!("# HELP {name}{total} {help}\n"));
            plain.push_str(&format!("# TYPE {name}{total} {}\n", kind.1));
        } else if line.starts_with('#') {
            return Err(wrong("a comment"));
        } else {
            plain.push_str(line);
            plain.push('\n');
        }
    }
    // No family may have the name of another one's samples.
    for suffix in ["_total", "_bucket", "_count", "_sum", "_created", "_info"] {
        let taken =
            |name: &&&str| names.contains(&name.trim_end_matches(suffix)) && name.ends_with(suffix);
        if let Some(name) = names.iter().find(taken) {
            return Err(format!("{name} is a sample of another family"));
        }
    }
    parse(&plain)
}

fn belongs(sample: &str, family: &str, kind: &str) -> bool {
    match kind {
        "counter" | "gauge" => sample == family,
        "histogram" => {
            let suffix = sample.strip_prefix(family);
            suffix.is_some_and(|suffix| ["_bucket", "_sum", "_count"].contains(&suffix))
        }
        _ => false,
    }
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn sample(line: &str) -> Result<Sample, String> {
    let wrong = |what: &str| format!("{what}: {line}");
    let (head, value) = line.rsplit_once(' ').ok_or_else(|| wrong("no value"))?;
    if value.parse::<f64>().is_err() {
        return Err(wrong("not a number"));
    }
    let (name, labels) = match head.split_once('{') {
        None => (head, Vec::new()),
        Some((name, rest)) => {
            let inner = rest.strip_suffix('}').ok_or_else(|| wrong("no brace"))?;
            (name, labels(inner)?)
        }
    };
    if !is_name(name) {
        return Err(wrong("not a name"));
    }
    Ok(Sample {
        name: name.to_owned(),
        labels,
        value: value.to_owned(),
    })
}

fn labels(mut text: &str) -> Result<Labels, String> {
    let mut labels: Labels = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").ok_or("a label without a value")?;
        let mut escaped = false;
        let end = rest.find(|c| {
            let quote = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            quote
        });
        let (value, after) = rest.split_at(end.ok_or("an open quote")?);
        if !is_name(name) || labels.iter().any(|(other, _)| other == name) {
            return Err(format!("label {name:?}"));
        }
        labels.push((name.to_owned(), unescaped(value, true)?));
        text = &after[1..];
        if let Some(rest) = text.strip_prefix(',') {
            text = rest;
        } else if !text.is_empty() {
            return Err(format!("after a label: {text:?}"));
        }
    }
    Ok(labels)
}

fn unescaped(text: &str, quotes: bool) -> Result<String, String> {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('\\') => '\\',
                Some('n') => '\n',
                Some('"') if quotes => '"',
                other => return Err(format!("escape {other:?}")),
            },
            other => other,
        });
    }
    Ok(plain)
}

/// Buckets of each set of labels ascend, count up, and end with all.
fn buckets(name: &str, family: &Family) -> Result<(), String> {
    let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    let number = |text: &str| text.parse::<f64>().map_err(|error| error.to_string());
    let bucket = format!("{name}_bucket");
    for sample in family.samples.iter().filter(|sample| sample.name == bucket) {
        let mut labels = sample.labels.clone();
        let at = labels
            .iter()
            .position(|(name, _)| name == "le")
            .ok_or("no le")?;
        let end = number(&labels.remove(at).1)?;
        series
            .entry(labels)
            .or_default()
            .push((end, number(&sample.value)?));
    }
    for (labels, buckets) in series {
        let rising = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        let last = buckets.last().ok_or("no bucket")?;
        let of = |suffix: &str| {
            let wanted = format!("{name}{suffix}");
            let mut samples = family.samples.iter();
            let found = samples.find(|sample| sample.name == wanted && sample.labels == labels);
            number(&found.ok_or(wanted)?.value)
        };
        of("_sum")?;
        if !buckets.windows(2).all(rising) || last.0 != f64::INFINITY || last.1 != of("_count")? {
            return Err(format!("buckets of {name}: {buckets:?}"));
        }
    }
    Ok(())
}
