//! Cookies: who shows one has received at the address that it sends from (as in RFC 9147, 5.1). The server keeps
//! nothing for them.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use aws_lc_rs::{constant_time, hmac, rand};
use rustls::Error;

use crate::frame::{Attempt, COOKIE_BYTES, Cookie};
use crate::moment::Now;

/// Time for which a cookie is good.
pub const COOKIE_VALID: Duration = Duration::from_secs(30);
const TIME_BYTES: usize = 8;

/// Makes cookies, and knows its own.
pub(crate) struct Cookies {
    key: hmac::Key,
}

impl Cookies {
    pub(crate) fn new() -> Result<Self, Error> {
        let mut secret = [0; 32];
        rand::fill(&mut secret).map_err(|_| Error::FailedToGetRandomBytes)?;
        Ok(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
        })
    }

    pub(crate) fn make(&self, now: Now, from: SocketAddr, attempt: Attempt) -> Cookie {
        self.at(now.elapsed.as_millis(), from, attempt)
    }

    pub(crate) fn is_valid(
        &self,
        now: Now,
        from: SocketAddr,
        attempt: Attempt,
        cookie: &Cookie,
    ) -> bool {
        let mut made = [0; TIME_BYTES];
        made.copy_from_slice(&cookie[..TIME_BYTES]);
        let made = u128::from(u64::from_le_bytes(made));
        let now = now.elapsed.as_millis();
        let fresh = made <= now && now - made <= COOKIE_VALID.as_millis();
        let right = self.at(made, from, attempt);
        fresh && constant_time::verify_slices_are_equal(&right, cookie).is_ok()
    }

    fn at(&self, made: u128, from: SocketAddr, attempt: Attempt) -> Cookie {
        let made = u64::try_from(made).unwrap_or(u64::MAX).to_le_bytes();
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&made);
        match from.ip() {
            IpAddr::V4(ip) => context.update(&ip.octets()),
            IpAddr::V6(ip) => context.update(&ip.octets()),
        }
        context.update(&from.port().to_le_bytes());
        context.update(&attempt.0);
        let tag = context.sign();
        let mut cookie = [0; COOKIE_BYTES];
        cookie[..TIME_BYTES].copy_from_slice(&made);
        cookie[TIME_BYTES..].copy_from_slice(&tag.as_ref()[..COOKIE_BYTES - TIME_BYTES]);
        cookie
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_of_one_address_attempt_and_time() {
        let cookies = Cookies::new().unwrap();
        let at = |seconds| Now {
            elapsed: Duration::from_secs(seconds),
            unix: 0,
        };
        let from: SocketAddr = "192.0.2.1:7".parse().unwrap();
        let attempt = Attempt([3; 8]);
        let cookie = cookies.make(at(100), from, attempt);
        let valid = |now, from, attempt, cookie| cookies.is_valid(now, from, attempt, &cookie);
        assert!(valid(at(100), from, attempt, cookie));
        assert!(valid(at(130), from, attempt, cookie));
        assert!(!valid(at(131), from, attempt, cookie));
        assert!(!valid(at(99), from, attempt, cookie));
        assert!(!valid(at(100), from, Attempt([4; 8]), cookie));
        for other in ["192.0.2.1:8", "192.0.2.2:7", "[2001:db8::1]:7"] {
            assert!(!valid(at(100), other.parse().unwrap(), attempt, cookie));
        }
        for place in 0..COOKIE_BYTES {
            let mut changed = cookie;
            changed[place] ^= 1;
            assert!(!valid(at(100), from, attempt, changed));
        }
        assert!(
            !Cookies::new()
                .unwrap()
                .is_valid(at(100), from, attempt, &cookie)
        );
    }
}
