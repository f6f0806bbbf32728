//! Tells whether a connection on loopback comes from the user who runs the service. Other users of the machine can
//! connect to it, too.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use tokio::sync::oneshot;

/// Knows the users behind connections.
///
/// The system lists all sockets in one table, which takes milliseconds to read where there are many. So one thread reads
/// it, and each reading answers all who wait: many connections at once cost little more than one.
#[derive(Debug, Clone)]
pub struct Peers(Sender<Question>);

/// A connection whose user is asked for.
#[derive(Debug)]
struct Question {
    client: SocketAddr,
    service: SocketAddr,
    answer: oneshot::Sender<bool>,
}

impl Peers {
    /// Starts the thread. It ends with the last of these values.
    pub fn start() -> Self {
        let (asked, questions) = mpsc::channel();
        thread::spawn(move || answer_all(&questions, |table| std::fs::read_to_string(table).ok()));
        Self(asked)
    }

    /// Returns whether a client's socket belongs to this user. Where the system does not tell, everybody on loopback
    /// counts as this user.
    pub async fn is_this_user(&self, client: SocketAddr, service: SocketAddr) -> bool {
        let (answer, answered) = oneshot::channel();
        self.0.send(Question { client, service, answer }).is_ok() && answered.await.unwrap_or(false)
    }
}

/// Answers questions until all senders are gone. `read` reads a file such as /proc/net/tcp.
fn answer_all(questions: &Receiver<Question>, mut read: impl FnMut(&str) -> Option<String>) {
    let this_user = rustix::process::getuid().as_raw();
    while let Ok(first) = questions.recv() {
        // Their sockets are all in a table that is read from now on.
        let waiting = std::iter::once(first).chain(questions.try_iter());
        let (v4, v6): (Vec<_>, Vec<_>) = waiting.partition(|question| question.client.is_ipv4());
        for (table, waiting) in [("/proc/net/tcp", v4), ("/proc/net/tcp6", v6)] {
            if waiting.is_empty() {
                continue;
            }
            let text = read(table);
            let owners = text.as_deref().map(owners);
            for Question { client, service, answer } in waiting {
                let of = |owners: &HashMap<_, _>| owners.get(&(&*hex(client), &*hex(service))).copied();
                // The client may be gone.
                let _ = answer.send(owners.as_ref().is_none_or(|owners| of(owners) == Some(this_user)));
            }
        }
    }
}

/// Reads a table: who owns each socket, by its own address and that of its other end. The system lists a socket that is
/// closed already without its owner.
fn owners(table: &str) -> HashMap<(&str, &str), u32> {
    let socket = |line| -> Option<((&str, &str), u32)> {
        let words: Vec<&str> = str::split_whitespace(line).collect();
        let has_process = words.get(9).is_some_and(|inode| *inode != "0");
        Some(((*words.get(1)?, *words.get(2)?), words.get(7)?.parse().ok().filter(|_| has_process)?))
    };
    table.lines().skip(1).filter_map(socket).collect()
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
        let owners = owners(TABLE);
        let service: SocketAddr = "127.0.0.1:7878".parse().unwrap();
        let of = |client: &str| owners.get(&(&*hex(client.parse().unwrap()), &*hex(service))).copied();
        assert_eq!(of("127.0.0.1:50000"), Some(1001));
        // It was closed at once. The system lists it as root's.
        assert_eq!(of("127.0.0.1:50001"), None);
        assert_eq!(of("127.0.0.1:50002"), None);
        assert_eq!(hex("[::1]:1".parse().unwrap()), "00000000000000000000000001000000:0001");
    }

    #[test]
    fn five_hundred_connections_at_once_cost_one_look_at_the_table() {
        let (asked, questions) = mpsc::channel();
        let (peers, service) = (Peers(asked), "127.0.0.1:7878".parse().unwrap());
        let client: SocketAddr = "127.0.0.1:50000".parse().unwrap();
        let answers: Vec<_> = (0..500)
            .map(|_| {
                let (answer, answered) = oneshot::channel();
                peers.0.send(Question { client, service, answer }).unwrap();
                answered
            })
            .collect();
        drop(peers);
        let mut looks = 0;
        answer_all(&questions, |table| {
            assert_eq!(table, "/proc/net/tcp");
            looks += 1;
            Some(TABLE.replace("1001", &rustix::process::getuid().as_raw().to_string()))
        });
        assert_eq!(looks, 1);
        assert!(answers.into_iter().all(|answered| answered.blocking_recv().unwrap()));
    }

    #[tokio::test]
    async fn this_user_is_known_on_this_machine() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let peers = Peers::start();
        assert!(peers.is_this_user(client.local_addr().unwrap(), listener.local_addr().unwrap()).await);
    }
}
