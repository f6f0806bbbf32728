//! Refuses requests that a page of another site makes with the user's browser.
//!
//! A page can send requests to any address, and by DNS rebinding it can make its own name lead to this machine. So the
//! header `Host` must name this service, and a request that a browser marks as coming from elsewhere is refused.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};

/// The names under which a service may be called.
#[derive(Debug, Clone)]
pub struct Hosts {
    names: Vec<String>,
    /// Whether any IP address with the port is a name of this service. A page cannot make up an address.
    any_address: bool,
    port: u16,
    scheme: &'static str,
}

impl Hosts {
    /// Returns the names of a service that listens on an address. `given` are further ones, with or without a port.
    pub fn of(address: SocketAddr, given: &[String], is_encrypted: bool) -> Self {
        let (port, is_loopback) = (address.port(), address.ip().is_loopback());
        let local = ["localhost", "127.0.0.1", "[::1]"].into_iter().map(str::to_owned);
        let mut names: Vec<String> = given.iter().map(|name| name.to_ascii_lowercase()).collect();
        if is_loopback {
            names.extend(local);
        }
        Self { names, any_address: !is_loopback, port, scheme: if is_encrypted { "https" } else { "http" } }
    }

    /// Returns why a request is refused, if it is.
    pub fn refusal(&self, uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) else {
            return Some("the request must have one header Host");
        };
        let host = host.to_ascii_lowercase();
        if uri.authority().is_some_and(|authority| !authority.as_str().eq_ignore_ascii_case(&host)) {
            return Some("the request names two hosts");
        }
        if !self.is_ours(&host) {
            return Some(
                "the header Host does not name this service: `optloop serve --host NAME` allows a further name",
            );
        }
        let of_this_page = |origin: &str| origin.eq_ignore_ascii_case(&format!("{}://{host}", self.scheme));
        if headers.get_all(ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(of_this_page)) {
            return Some("the request comes from a page of another site");
        }
        let is_own_site = |site: &[u8]| matches!(site, b"same-origin" | b"none");
        let is_elsewhere = headers.get_all("sec-fetch-site").iter().any(|site| !is_own_site(site.as_bytes()));
        if is_elsewhere && !follows_a_link(uri, headers) {
            return Some("the request comes from a page of another site");
        }
        None
    }

    fn is_ours(&self, host: &str) -> bool {
        let (name, port) = split(host);
        if port.is_some() && self.names.iter().any(|known| known == host) {
            return true;
        }
        let default_port = if self.scheme == "https" { 443 } else { 80 };
        if port.unwrap_or(default_port) != self.port {
            return false;
        }
        let address = name.trim_start_matches('[').trim_end_matches(']');
        self.names.iter().any(|known| known == name) || (self.any_address && address.parse::<IpAddr>().is_ok())
    }
}

/// Whether a browser opens the first page because somebody followed a link to it. The site with the link sees no answer.
fn follows_a_link(uri: &Uri, headers: &HeaderMap) -> bool {
    uri.path() == "/" && headers.get("sec-fetch-dest").is_some_and(|place| place == "document")
}

/// Splits a host into its name and its port.
fn split(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (host, None),
        },
        _ => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(hosts: &Hosts, headers: &[(&'static str, &str)]) -> Option<&'static str> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        hosts.refusal(&Uri::from_static("/"), &map)
    }

    #[test]
    fn on_loopback_only_names_of_this_machine_with_the_port_pass() {
        let hosts = Hosts::of("127.0.0.1:7878".parse().unwrap(), &["box:9000".to_owned()], false);
        for host in ["127.0.0.1:7878", "localhost:7878", "LOCALHOST:7878", "[::1]:7878", "box:9000"] {
            assert_eq!(refusal(&hosts, &[("host", host)]), None, "{host}");
        }
        for host in
            ["evil.example:7878", "127.0.0.1", "127.0.0.1:80", "10.0.0.1:7878", "localhost.evil:7878", "box", ""]
        {
            assert!(refusal(&hosts, &[("host", host)]).is_some(), "{host}");
        }
        assert!(refusal(&hosts, &[]).is_some());
        assert!(refusal(&hosts, &[("host", "localhost:7878"), ("host", "localhost:7878")]).is_some());
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let hosts = Hosts::of("127.0.0.1:7878".parse().unwrap(), &[], false);
        let with = |name: &'static str, value: &str| refusal(&hosts, &[("host", "localhost:7878"), (name, value)]);
        assert_eq!(with("origin", "http://localhost:7878"), None);
        for origin in ["null", "https://localhost:7878", "http://127.0.0.1:7878", "http://evil.example", ""] {
            assert!(with("origin", origin).is_some(), "{origin}");
        }
        assert_eq!((with("sec-fetch-site", "same-origin"), with("sec-fetch-site", "none")), (None, None));
        assert!(with("sec-fetch-site", "same-site").is_some() && with("sec-fetch-site", "cross-site").is_some());
        let linked = [("host", "localhost:7878"), ("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "document")];
        assert_eq!(refusal(&hosts, &linked), None, "a link to the first page");
        let framed = [linked[0], linked[1], ("sec-fetch-dest", "iframe")];
        assert!(refusal(&hosts, &framed).is_some());
    }

    #[test]
    fn on_other_addresses_an_address_or_a_given_name_passes() {
        let hosts = Hosts::of("0.0.0.0:443".parse().unwrap(), &["gpu.lab".to_owned()], true);
        for host in ["10.1.2.3", "10.1.2.3:443", "gpu.lab", "gpu.lab:443", "[fe80::1]:443"] {
            assert_eq!(refusal(&hosts, &[("host", host)]), None, "{host}");
        }
        assert!(refusal(&hosts, &[("host", "evil.example")]).is_some());
        assert!(refusal(&hosts, &[("host", "localhost:443")]).is_some());
    }
}
