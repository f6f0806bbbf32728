//! Tells whether a connection on loopback comes from the user who runs the service. Other users of the machine can
//! connect to it, too.

use std::net::{IpAddr, SocketAddr};

/// Returns whether a client's socket belongs to this user. Where the system does not tell, everybody on loopback counts
/// as this user.
pub fn is_this_user(client: SocketAddr, service: SocketAddr) -> bool {
    #[cfg(target_os = "linux")]
    {
        let table = if client.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
        let Ok(text) = std::fs::read_to_string(table) else { return true };
        owner(&text, client, service) == Some(rustix::process::getuid().as_raw())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (client, service);
        true
    }
}

/// Returns the user who owns the socket of a client. None if it is closed already: the system then lists it without an
/// owner.
fn owner(table: &str, client: SocketAddr, service: SocketAddr) -> Option<u32> {
    let (local, remote) = (hex(client), hex(service));
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.get(1) == Some(&local.as_str()) && words.get(2) == Some(&remote.as_str());
        let has_process = words.get(9).is_some_and(|inode| *inode != "0");
        if is_it && has_process { words.get(7)?.parse().ok() } else { None }
    })
}

/// Writes an address as the system does: words of 32 bits in the machine's byte order.
fn hex(address: SocketAddr) -> String {
    let bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = bytes.chunks_exact(4).map(|word| {
        let word = word.iter().rev().fold(0, |number: u32, byte| (number << 8) | u32::from(*byte));
        format!("{word:08X}")
    });
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1EC6 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0
   1: 0100007F:C350 0100007F:1EC6 01 00000000:00000000 00:00000000 00000000  1001        0 12 1 0
   2: 0100007F:C351 0100007F:1EC6 06 00000000:00000000 00:00000000 00000000     0        0 0 1 0
";

    #[test]
    fn the_owner_of_a_socket_is_found_while_it_is_open() {
        let service: SocketAddr = "127.0.0.1:7878".parse().unwrap();
        let of = |client: &str| owner(TABLE, client.parse().unwrap(), service);
        assert_eq!(of("127.0.0.1:50000"), Some(1001));
        // It was closed at once. The system lists it as root's.
        assert_eq!(of("127.0.0.1:50001"), None);
        assert_eq!(of("127.0.0.1:50002"), None);
        assert_eq!(hex("[::1]:1".parse().unwrap()), "00000000000000000000000001000000:0001");
    }

    #[test]
    fn this_user_is_known_on_this_machine() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(is_this_user(client.local_addr().unwrap(), listener.local_addr().unwrap()));
    }
}
