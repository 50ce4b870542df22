//! Numbers in prose, filled in from the data: `{E09.4@0.2}` is the seed-faithful mean of E09's curve
//! 4 at 0.2, `{E28.0@192m}` the modern one. Two of them with `/`, `-` or `vs` between are a ratio, a
//! difference, or a change in per cent; with ` ±` at the end the interval follows.

use crate::catalogue;
use crate::data::Data;
use crate::estimate::Estimate;
use crate::papers::Mode;
use crate::results::short;
use crate::rules::{Seen, with_interval};

/// The text with all its numbers.
///
/// # Errors
/// Something in braces is none of the forms above.
pub(crate) fn filled(text: &str, data: &Data) -> Result<String, String> {
    let mut parts = text.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inner, rest) = part
            .split_once('}')
            .ok_or_else(|| format!("a brace is open: {part}"))?;
        filled.push_str(&number(inner, data).ok_or_else(|| format!("not a number: {inner}"))?);
        filled.push_str(rest);
    }
    Ok(filled)
}

fn number(inner: &str, data: &Data) -> Option<String> {
    let (inner, interval) = match inner.strip_suffix(" ±") {
        Some(inner) => (inner, true),
        None => (inner, false),
    };
    let words: Vec<&str> = inner.split(' ').collect();
    let value = match words[..] {
        [one] => operand(one, data)?,
        [one, "/", other] => operand(one, data)? / operand(other, data)?,
        [one, "-", other] => operand(one, data)? - operand(other, data)?,
        [one, "vs", other] => (operand(one, data)? / operand(other, data)? - 1.0) * 100.0,
        _ => return None,
    };
    Some(if interval {
        with_interval(value)
    } else {
        short(value.mean())
    })
}

/// `E09.4@0.2`, of modern mode with an `m` behind it.
fn operand(word: &str, data: &Data) -> Option<Estimate> {
    let (word, mode) = match word.strip_suffix('m') {
        Some(word) => (word, Mode::Modern),
        None => (word, Mode::Faithful),
    };
    let (id, rest) = word.split_once('.')?;
    let (curve, x) = rest.split_once('@')?;
    let figure = catalogue::all().into_iter().find(|it| it.id == id)?;
    let curve: usize = curve.parse().ok()?;
    let x: f64 = x.parse().ok()?;
    let known = curve < figure.curves.len() && figure.sweep.values.contains(&x);
    known.then(|| Seen { data, figure, mode }.at(curve, x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_catalogue_is_an_error() {
        let data = Data::default();
        assert_eq!(filled("as it is", &data).unwrap(), "as it is");
        assert_eq!(filled("{E16.0@1000}", &data).unwrap(), "not run");
        for wrong in ["{E16.0@1}", "{E16.7@1000}", "{X.0@1}", "{E16.0@1000", "{}"] {
            filled(wrong, &data).unwrap_err();
        }
    }
}
