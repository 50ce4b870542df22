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

/// The numbers of requirements (R and three digits), experiments, contradictions and gaps (E, X or
/// G, two digits, and perhaps `b` or `c`) that a text mentions, in order.
#[must_use]
pub fn requirement_ids(text: &str) -> Vec<&str> {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|sign| !letter(sign));
    words.filter(|word| is_requirement(word)).collect()
}

fn is_requirement(word: &str) -> bool {
    let mut letters = word.chars();
    let digits = match letters.next() {
        Some('R') => 3,
        Some('E' | 'X' | 'G') => 2,
        _ => return false,
    };
    let rest = letters.as_str();
    let number = match rest.strip_suffix(['b', 'c']) {
        Some(number) if digits == 2 => number,
        _ => rest,
    };
    number.len() == digits && number.chars().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_requirement_numbers_and_nothing_else() {
        let text = "(R053, E04b), 0xE01, R53, E043, R128-R130 X06. G01x, GR01, E1";
        assert_eq!(
            requirement_ids(text),
            ["R053", "E04b", "R128", "R130", "X06"]
        );
    }

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
