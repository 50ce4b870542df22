//! Names of sites, and where their gateways are.

/// Longest name of a site, bytes.
const SITE_BYTES_MAX: usize = 32;

/// A gateway of another site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remote {
    /// Name of the site.
    pub(crate) site: String,
    /// The gateway, or a relay between, HOST:PORT.
    pub(crate) parent: String,
}

/// Reads the name of a site.
///
/// # Errors
/// It is none, in words.
pub(crate) fn site_name(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match (1..=SITE_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a site's name has 1 to {SITE_BYTES_MAX} letters of ASCII, digits, dots, hyphens and underscores"
        )),
    }
}

/// Reads a gateway of another site: the site's name and where the gateway is.
///
/// # Errors
/// It is none, in words.
pub(super) fn remote(text: &str) -> Result<Remote, String> {
    let (site, parent) = text
        .split_once('=')
        .ok_or("write it as SITE=HOST:PORT, such as lon=gateway.lon.example:4490")?;
    let (site, parent) = (site_name(site)?, parent.to_owned());
    Ok(Remote { site, parent })
}

/// Name of a site's stream: what tokens name, and sessions follow from.
pub(super) fn stream_of(site: &str) -> String {
    format!("site/{site}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_places_are_read_and_mistakes_named() {
        let lon = remote("lon=10.0.0.1:4490").unwrap();
        assert_eq!((&*lon.site, &*lon.parent), ("lon", "10.0.0.1:4490"));
        assert_eq!(stream_of(&lon.site), "site/lon");
        assert!(
            remote("10.0.0.1:4490")
                .unwrap_err()
                .contains("SITE=HOST:PORT")
        );
        let long = "x".repeat(33);
        for wrong in ["", "a b", "a/b", "é", &long] {
            assert!(site_name(wrong).is_err(), "{wrong}");
        }
    }
}
