//! The address of an endpoint, and whether a key may be sent there.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

use super::provider::Provider;
use crate::error::Error;

/// The checked address of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    provider: Provider,
    /// Ends with `/`, so that paths can be joined.
    base: Url,
    is_own: bool,
}

impl Address {
    /// Checks an address; `None` is the provider's own. The error continues a sentence that begins with the key's name,
    /// and never shows the address, which may hold a password.
    pub fn new(provider: Provider, given: Option<&str>, allow_http: bool) -> Result<Self, Error> {
        let Ok(mut base) = Url::parse(given.unwrap_or_else(|| provider.own_url())) else {
            return Err(Error::new("is not a URL: use one such as https://example.com/v1"));
        };
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(Error::new("must begin with http:// or https://"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(Error::new(
                "must not contain a user or a password: name a variable with the key in llm.key_env",
            ));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(Error::new("must not contain `?` or `#`: the address ends with its path"));
        }
        if base.scheme() == "http" && !allow_http && !is_private(&base) {
            return Err(Error::new("is plain HTTP to a public address").hint("use https, or set llm.allow_http = true"));
        }
        // Both APIs live below /v1. Users write addresses with and without it.
        let path = match base.path().trim_end_matches('/') {
            "" => "/v1/".to_owned(),
            path => format!("{path}/"),
        };
        base.set_path(&path);
        Ok(Self { provider, base, is_own: given.is_none() })
    }

    /// Returns the provider whose API the endpoint speaks.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Tells whether this is the provider's own endpoint.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// Tells whether the endpoint is on this machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.base)
    }

    /// Returns the URL of a path below the address, such as `models`.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.base.as_str().trim_end_matches('/'))
    }
}

/// The IP address of a host that is written as one.
fn ip(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

fn is_loopback(url: &Url) -> bool {
    match ip(url) {
        Some(ip) => ip.is_loopback(),
        None => url.host_str() == Some("localhost"),
    }
}

/// Tells whether a host is on this machine or in a private network (RFC 1918, RFC 4193). A name other than `localhost`
/// may resolve to any address.
fn is_private(url: &Url) -> bool {
    is_loopback(url)
        || match ip(url) {
            Some(IpAddr::V4(ip)) => ip.is_private(),
            Some(IpAddr::V6(ip)) => ip.is_unique_local(),
            None => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(given: &str) -> Result<String, Error> {
        Address::new(Provider::OpenAi, Some(given), false).map(|address| address.url("models"))
    }

    #[test]
    fn paths_are_below_v1_or_what_the_user_wrote() {
        assert_eq!(address("http://localhost:11434").unwrap(), "http://localhost:11434/v1/models");
        assert_eq!(address("http://127.0.0.1:8000/v1/").unwrap(), "http://127.0.0.1:8000/v1/models");
        assert_eq!(address("https://example.com/api/openai").unwrap(), "https://example.com/api/openai/models");
        let own = Address::new(Provider::Anthropic, None, false).unwrap();
        assert_eq!((own.url("messages").as_str(), own.is_own()), ("https://api.anthropic.com/v1/messages", true));
    }

    #[test]
    fn plain_http_stays_in_the_private_network() {
        for private in
            ["http://[::1]:1", "http://10.0.0.1", "http://192.168.1.5:80", "http://[fd00::1]", "http://127.9.9.9"]
        {
            assert!(address(private).is_ok(), "{private}");
        }
        for public in ["http://example.com", "http://8.8.8.8", "http://localhost.example.com", "http://169.254.169.254"]
        {
            assert!(address(public).unwrap_err().to_string().contains("plain HTTP"), "{public}");
            assert!(Address::new(Provider::OpenAi, Some(public), true).is_ok());
        }
    }

    #[test]
    fn mistakes_do_not_show_the_address() {
        for wrong in
            ["https://me:hunter2@host/", "https://hunter2@host/", "ftp://hunter2", "hunter2", "https://h/?k=hunter2"]
        {
            let error = address(wrong).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
