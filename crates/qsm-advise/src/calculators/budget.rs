use core::str::FromStr;

use super::checks::positive;
use crate::advice::{Advice, AdviceError, Source};
use crate::quantity::{ParseQuantityError, Seconds, Share};

const BUDGET: Source = Source::topics("16", "Messaging Latency Budget");
const SOURCES: Source = Source::topics("17", "Sources of Latency");

/// Most parts of a budget.
const PARTS_MAX: usize = 100;

/// A source of latency, and what it may take.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its share of the budget.
    pub time: Seconds,
}

/// `NAME=TIME`, such as `network=120us`.
impl FromStr for Part {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        let (name, time) = text.split_once('=').unwrap_or(("", text));
        let name = match name.trim() {
            "" => "a part",
            name => name,
        };
        Ok(Self {
            name: name.to_owned(),
            time: time.parse()?,
        })
    }
}

/// The parts of a latency budget, their sum, and what is left of the whole.
///
/// # Errors
/// The whole is zero, or there are no parts, or more than a hundred.
pub fn budget(total: Seconds, parts: &[Part]) -> Result<Advice, AdviceError> {
    positive("the budget", total)?;
    if parts.is_empty() || parts.len() > PARTS_MAX {
        return Err(AdviceError::new(
            format!("a budget of {} parts", parts.len()),
            "give 1 to 100 sources of latency, such as --part network=120us --part cpu=1ms",
        ));
    }
    let mut advice = Advice::new("latency budget")
        .equation("sum = the sum of all parts", BUDGET)
        .equation("left = total - sum", SOURCES)
        .given("total", total);
    for part in parts {
        advice = advice.given(part.name.as_str(), part.time);
    }
    let sum: f64 = parts.iter().map(|part| part.time.0).sum();
    advice = advice
        .gives("sum", Seconds(sum))
        .gives("used", Share(sum / total.0));
    let largest = parts.iter().max_by(|a, b| a.time.0.total_cmp(&b.time.0));
    let largest = largest.map_or("", |part| part.name.as_str());
    Ok(match sum > total.0 {
        true => advice
            .gives("exceeded by", Seconds(sum - total.0))
            .note(format!(
                "the budget is exceeded: begin with {largest}, the largest part"
            )),
        false => advice.gives("left", Seconds(total.0 - sum)).note(format!(
            "the largest part is {largest}; let each part log when it takes more"
        )),
    })
}
