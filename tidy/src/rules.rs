/// The numbers of protocol rules (the letter R, a family in capitals, a number, joined by
/// hyphens) that a text mentions, in order.
#[must_use]
pub fn rule_ids(text: &str) -> Vec<&str> {
    let mut ids = Vec::new();
    for (at, _) in text.match_indices("R-") {
        let attached = text[..at]
            .chars()
            .next_back()
            .is_some_and(char::is_alphanumeric);
        let rest = &text[at + 2..];
        let family = rest
            .find(|letter: char| !letter.is_ascii_uppercase())
            .unwrap_or(rest.len());
        let Some(number) = rest[family..].strip_prefix('-') else {
            continue;
        };
        let digits = number
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(number.len());
        if !attached && family > 1 && digits > 0 {
            ids.push(&text[at..at + 2 + family + 1 + digits]);
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_rule_numbers_and_nothing_else() {
        let text = concat!(
            "(R",
            "-NAK-12), R053, R",
            "-9, FR",
            "-AA-1, R",
            "-TOK-x, R",
            "-VIEW-2."
        );
        assert_eq!(
            rule_ids(text),
            [concat!("R", "-NAK-12"), concat!("R", "-VIEW-2")]
        );
    }
}
