use crate::advice::AdviceError;
use crate::quantity::{Count, Quantity, Share};

/// Refuses what must not be zero.
pub(super) fn positive(name: &str, quantity: impl Into<Quantity>) -> Result<(), AdviceError> {
    let quantity = quantity.into();
    match quantity.value > 0.0 && quantity.value.is_finite() {
        true => Ok(()),
        false => Err(AdviceError::new(
            format!("{name} is {quantity}, which says nothing"),
            "give a number above zero",
        )),
    }
}

/// Refuses shares of more than all.
pub(super) fn share(name: &str, share: Share) -> Result<(), AdviceError> {
    match (0.0..=1.0).contains(&share.0) {
        true => Ok(()),
        false => Err(AdviceError::new(
            format!("{name} is {share}"),
            "give a share between 0% and 100%",
        )),
    }
}

/// Refuses fractions of things.
pub(super) fn whole(name: &str, count: Count) -> Result<(), AdviceError> {
    positive(name, count)?;
    match count.0.fract() == 0.0 {
        true => Ok(()),
        false => Err(AdviceError::new(
            format!("{name} is {}, and there are no parts of one", count.0),
            "give a whole number",
        )),
    }
}
