//! The value of `--latency-budget`.

use qsm::{LatencyBudget, Stage};

use super::quantity::duration;

/// Reads a latency budget: a time, such as `5ms`, or shares, such as `total=5ms,batching=1ms`.
///
/// # Errors
/// Not times, no total, another name than that of a stage, or shares that are more than the total.
pub fn latency_budget(text: &str) -> Result<LatencyBudget, String> {
    if !text.contains('=') {
        return Ok(LatencyBudget::new(duration(text)?));
    }
    let (mut total, mut shares) = (None, Vec::new());
    for part in text.split(',') {
        match part.split_once('=') {
            Some(("total", time)) => total = Some(duration(time)?),
            Some((name, time)) => {
                let stage: Stage = name.parse().map_err(wrong)?;
                shares.push((stage, duration(time)?));
            }
            None => return Err(format!("{part:?} is not STAGE=TIME, such as batching=1ms")),
        }
    }
    let total = total.ok_or("the total is missing: begin with total=5ms, or with what it is")?;
    let budget = LatencyBudget::new(total);
    let give = |budget: LatencyBudget, (stage, share)| budget.stage(stage, share);
    shares.into_iter().try_fold(budget, give).map_err(wrong)
}

fn wrong(error: impl ToString) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_budget_is_a_time_or_shares_of_one() {
        assert_eq!(latency_budget("5ms"), Ok(LatencyBudget::new(MS * 5)));
        let budget = latency_budget("batching=200us,total=5ms,receive-buffer=1ms").unwrap();
        assert_eq!(budget.total(), MS * 5);
        assert_eq!(budget.of(Stage::Batching), MS / 5);
        assert_eq!(budget.of(Stage::ReceiveBuffer), MS);
    }

    #[test]
    fn what_is_wrong_is_said_with_the_remedy() {
        for (text, said) in [
            ("soon", "not a time"),
            ("batching=1ms", "the total is missing"),
            ("total=5ms,batch=1ms", "stages are handoff, batching"),
            ("total=5ms,batching", "STAGE=TIME"),
            ("total=5ms,repair=6ms", "raise the total"),
        ] {
            let error = latency_budget(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
