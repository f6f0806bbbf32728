//! Who may do what: other sites, other users, and clients that send too much or too slowly.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use serde_json::{Value, json};

use super::running::{Service, StandingStill, on_the_fake_device, read_answer};
use crate::common::Sandbox;

const SUBMISSIONS: &str = "/api/v1/submissions";

#[test]
fn pages_of_other_sites_can_neither_read_nor_start_anything() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let port = service.address().rsplit_once(':').unwrap().1.to_owned();
    let own = format!("Origin: http://{}", service.address());
    let rebound = format!("Host: evil.example:{port}");
    let localhost = format!("Host: localhost:{port}");
    let get = |header: &str| service.send("GET", SUBMISSIONS, &[header], "").status;
    assert_eq!([get("Accept: */*"), get(&own), get(&localhost), get("Sec-Fetch-Site: none")], [200; 4]);
    for header in [
        rebound.as_str(),
        "Host: 127.0.0.1:1",
        "Origin: http://evil.example",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ] {
        assert_eq!(get(header), 403, "{header}");
        assert_eq!(service.send("POST", SUBMISSIONS, &[header, "Content-Type: application/json"], "{}").status, 403);
    }
    // What a form or a script without permission can send is no JSON.
    let body = json!({ "project": "p", "request": on_the_fake_device(json!({})) }).to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        assert_eq!(service.send("POST", SUBMISSIONS, &[&format!("Content-Type: {kind}")], &body).status, 415);
    }
    for what in ["stop", "cancel", "resume"] {
        assert_eq!(service.send("POST", &format!("{SUBMISSIONS}/1/{what}"), &[], "").status, 415);
    }
    assert_eq!(service.send("OPTIONS", SUBMISSIONS, &[&own], "").status, 405, "no permission is ever given");
    assert_eq!(service.get(SUBMISSIONS).json(), json!([]), "nothing was queued");
    for path in [SUBMISSIONS, "/nowhere", "/healthz"] {
        let head = service.get(path).head;
        for header in ["content-security-policy: default-src 'none'", "nosniff", "frame-ancestors 'none'"] {
            assert!(head.contains(header), "{path}: {head}");
        }
        assert!(!head.contains("access-control"), "{head}");
    }
}

#[test]
fn a_token_is_needed_and_its_scope_is_kept() {
    let sandbox = Sandbox::new();
    let token = |name: &str, scope: &str| {
        let output = sandbox.optloop(&["serve", "--new-token", name, "--scope", scope]);
        let said = String::from_utf8(output.stderr).unwrap();
        let word = said.split_whitespace().find(|word| word.starts_with("optloop_")).unwrap().to_owned();
        (word, String::from_utf8(output.stdout).unwrap())
    };
    let ((reader, of_reader), (runner, of_runner)) = (token("alice", "read"), token("bob", "run"));
    assert!(!of_reader.contains(&reader), "only its hash is kept");
    sandbox.write("tokens", &format!("{of_reader}{of_runner}"));
    let tokens = sandbox.path("tokens").display().to_string();
    let mut service = Service::start_with(&sandbox, &["--tokens", &tokens]);
    let body = json!({ "project": "p", "request": on_the_fake_device(json!({ "max_iterations": 1 })) });

    let mut with = |authorization: Option<String>| {
        service.authorization = authorization;
        let (read, run) = (service.get(SUBMISSIONS), service.post(SUBMISSIONS, &body));
        [read, run]
            .map(|answer| if answer.status < 300 { answer.status.to_string() } else { answer.error() })
            .join(" / ")
    };
    insta::assert_snapshot!(with(None), @"401 a token is needed (send the header Authorization: Bearer TOKEN) / 401 a token is needed (send the header Authorization: Bearer TOKEN)");
    insta::assert_snapshot!(with(Some(format!("Bearer {reader}x"))), @"401 this token is not known / 401 this token is not known");
    insta::assert_snapshot!(with(Some(format!("Basic {reader}"))), @"401 this token is not known / 401 this token is not known");
    insta::assert_snapshot!(with(Some(format!("Bearer {reader}"))), @"200 / 403 the token `alice` has the scope read, and this needs run");
    insta::assert_snapshot!(with(Some(format!("Bearer {runner}"))), @"200 / 201");
    assert_eq!(service.end_of(&json!(1))["client"], "bob");
    service.authorization = None;
    assert_eq!((service.get("/healthz").status, service.get("/metrics").status), (200, 401));
    let logs = std::fs::read_to_string(sandbox.path("service.log")).unwrap();
    assert!(!logs.contains(&runner) && !logs.contains(&reader), "no token is logged");
}

#[test]
fn requests_that_are_refused_are_limited_by_address_and_logged_once_a_minute() {
    let sandbox = Sandbox::new();
    let made = sandbox.optloop(&["serve", "--new-token", "alice", "--scope", "read"]);
    let said = String::from_utf8(made.stderr).unwrap();
    let token = said.split_whitespace().find(|word| word.starts_with("optloop_")).unwrap();
    sandbox.write("tokens", &String::from_utf8(made.stdout).unwrap());
    let tokens = sandbox.path("tokens").display().to_string();
    let mut service = Service::start_with(&sandbox, &["--tokens", &tokens]);
    let wrong = "Authorization: Bearer optloop_wrong";
    let mut statuses = Vec::new();
    while statuses.last() != Some(&429) {
        statuses.push(service.send("GET", SUBMISSIONS, &[wrong], "").status);
    }
    assert!(statuses[..50].iter().all(|status| *status == 401), "{statuses:?}");
    while service.send("GET", SUBMISSIONS, &["Host: evil.example"], "").status != 429 {}
    assert_eq!(service.send("GET", "/healthz", &[wrong], "").status, 200);
    service.authorization = Some(format!("Bearer {token}"));
    assert_eq!(service.get(SUBMISSIONS).status, 200, "a client with a token has a limit of its own");
    // All in one go: the limit grows by 50 a second.
    let request = |last: &str| {
        format!(
            "GET {SUBMISSIONS} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n{last}\r\n",
            service.address()
        )
    };
    let flood = [request("").repeat(2000), request("Connection: close\r\n")].concat();
    let mut stream = service.connect();
    let mut sends = stream.try_clone().unwrap();
    let sent = std::thread::spawn(move || sends.write_all(flood.as_bytes()));
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    sent.join().unwrap().unwrap();
    assert!(answers.starts_with("HTTP/1.1 200") && answers.contains("HTTP/1.1 429"));
    assert_eq!(service.get("/healthz").status, 200, "it says that the process lives");
    let log = std::fs::read_to_string(sandbox.path("service.log")).unwrap();
    let lines = log.lines().filter(|line| ["=401", "=403", "=429"].iter().any(|status| line.contains(status))).count();
    assert!((1..10).contains(&lines), "one a minute: {log}");
}

#[test]
fn an_address_that_others_reach_needs_tokens_and_encryption() {
    let sandbox = Sandbox::new();
    sandbox.write("tokens", "a read 1111111111111111111111111111111111111111111111111111111111111111\n");
    let refused = |more: &[&str]| sandbox.fails(&[&["serve", "--listen", "0.0.0.0:0"], more].concat());
    insta::assert_snapshot!(refused(&[]), @"2 error: 0.0.0.0:0 can be reached by others: give --tokens FILE (`optloop serve --new-token NAME` makes a token), or listen on 127.0.0.1");
    insta::assert_snapshot!(refused(&["--tokens", "tokens"]), @"2 error: tokens would be sent to 0.0.0.0:0 in the clear: give --tls-cert and --tls-key, or --insecure-http if something else encrypts the connection");
    std::fs::set_permissions(sandbox.path("tokens"), std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    insta::assert_snapshot!(refused(&["--tokens", "tokens", "--insecure-http"]), @"2 error: other users may write tokens: chmod go-w tokens");
}

#[test]
fn a_service_makes_no_folder_private_that_has_other_things_in_it() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    sandbox.write("shared/notes.txt", "what others read");
    let mode = || sandbox.path("shared").metadata().unwrap().permissions().mode() & 0o777;
    let before = mode();
    let said = sandbox.fails(&["serve", "--listen", "127.0.0.1:0", "--state", "shared"]);
    insta::assert_snapshot!(said, @"2 error: shared has other files in it: give the service a folder of its own with --state");
    assert_eq!(mode(), before);
    assert_eq!(std::fs::read_dir(sandbox.path("shared")).unwrap().count(), 1, "nothing was written");
}

#[test]
fn clients_that_send_too_much_or_too_slowly_are_sent_away() {
    let sandbox = Sandbox::new();
    let service = Service::start_with(&sandbox, &["--client-timeout", "300ms"]);
    let large = format!("{{\"project\": \"{}\"}}", "x".repeat(70_000));
    let answer = service.send("POST", SUBMISSIONS, &["Content-Type: application/json"], &large);
    insta::assert_snapshot!(answer.error(), @"413 the body has more than 65536 bytes");
    assert_eq!(service.send("GET", SUBMISSIONS, &[&format!("X: {}", "x".repeat(100_000))], "").status, 431);

    // A head that never ends, and a body that never comes.
    let mut slow = service.connect();
    write!(slow, "GET /healthz HTTP/1.1\r\nHost: {}\r\n", service.address()).unwrap();
    let mut answer = Vec::new();
    slow.read_to_end(&mut answer).unwrap();
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
    let mut slow = service.connect();
    let head = format!("POST {SUBMISSIONS} HTTP/1.1\r\nHost: {}\r\nContent-Length: 10\r\n\r\n", service.address());
    slow.write_all(head.as_bytes()).unwrap();
    insta::assert_snapshot!(read_answer(slow).error(), @"408 the body did not arrive in time");

    assert_eq!(service.get("/nowhere%00/../..").status, 404);
}

#[test]
fn a_client_that_takes_no_answers_is_disconnected() {
    let sandbox = Sandbox::new();
    let service = Service::start_with(&sandbox, &["--client-timeout", "200ms"]);
    let stream = service.connect();
    let request = format!("GET /api/v1/openapi.json HTTP/1.1\r\nHost: {}\r\n\r\n", service.address());
    // More than the buffers of both sides hold. The service reads no further request meanwhile.
    stream.set_nonblocking(true).unwrap();
    let _ = (&stream).write_all(request.repeat(190).as_bytes());
    // A connection that is given up sends nothing, so only the system's table tells.
    let of_service =
        format!(":{:04X} 0100007F:{:04X} ", stream.peer_addr().unwrap().port(), stream.local_addr().unwrap().port());
    let is_open = || std::fs::read_to_string("/proc/net/tcp").unwrap().contains(&of_service);
    let began = std::time::Instant::now();
    while is_open() {
        assert!(began.elapsed().as_secs() < 60, "the connection is still open");
        std::thread::yield_now();
    }
    assert_eq!(service.get("/healthz").status, 200);
}

#[test]
fn a_client_with_a_thousand_event_streams_leaves_room_for_others() {
    let sandbox = Sandbox::new();
    let made = sandbox.optloop(&["serve", "--new-token", "greedy", "--scope", "run"]);
    let others = sandbox.optloop(&["serve", "--new-token", "modest", "--scope", "read"]);
    let tokens = [made.stdout, others.stdout].concat();
    sandbox.write("tokens", &String::from_utf8(tokens).unwrap());
    let path = sandbox.path("tokens").display().to_string();
    let word = |said: &[u8]| {
        let said = String::from_utf8(said.to_vec()).unwrap();
        format!("Bearer {}", said.split_whitespace().find(|word| word.starts_with("optloop_")).unwrap())
    };
    let mut service = Service::start_with(&sandbox, &["--tokens", &path, "--max-connections", "2000"]);
    service.authorization = Some(word(&made.stderr));
    let id = service.submit(json!({ "budget": "1h" }))["id"].clone();
    service.first_iteration_of(&id);
    let _still = StandingStill::new(&sandbox);

    let head = format!(
        "GET {SUBMISSIONS}/{id}/events HTTP/1.1\r\nHost: {}\r\nAuthorization: {}\r\n\r\n",
        service.address(),
        service.authorization.as_deref().unwrap()
    );
    let mut statuses = BTreeMap::<String, usize>::new();
    let mut streams = Vec::new();
    for _ in 0..1000 {
        let mut stream = service.connect();
        stream.write_all(head.as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        *statuses.entry(String::from_utf8_lossy(&status[9..]).into_owned()).or_default() += 1;
        streams.push(stream);
    }
    // A quarter of 256 streams. The other requests meet the limit of streams or that of requests.
    assert_eq!(statuses.get("200"), Some(&64), "{statuses:?}");
    assert!(statuses.keys().all(|status| ["200", "429", "503"].contains(&status.as_str())), "{statuses:?}");
    service.authorization = Some(word(&others.stderr));
    assert_eq!(service.get(SUBMISSIONS).status, 200);
    assert!(service.events(&id, 0).any(|event| event.data["event"] == "iteration"));
}

#[test]
fn what_others_wrote_is_data() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let script = "<script>alert(1)</script>";
    let answer = service.post(SUBMISSIONS, &json!({ "project": script, "request": {} }));
    assert!(answer.head.contains("content-type: application/json") && answer.head.contains("nosniff"), "{answer:?}");
    let answer = service.get(&format!("/{}", script.replace(['<', '>'], "%3C")));
    let body: Value = answer.json();
    assert!(answer.head.contains("application/json") && body["error"].is_string(), "{answer:?}");
}
