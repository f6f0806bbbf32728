//! The files of the web pages. scripts/browser-service uses them in a browser.

use super::running::Service;
use crate::common::Sandbox;

#[test]
fn pages_come_with_a_policy_that_lets_only_their_own_scripts_run() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    for (path, media) in [
        ("/", "text/html"),
        ("/pages/main.js", "text/javascript"),
        ("/pages/pages.css", "text/css"),
        ("/pages/report.css", "text/css"),
    ] {
        let answer = service.get(path);
        assert_eq!(answer.status, 200, "{path}");
        for wanted in [
            &format!("content-type: {media}; charset=utf-8"),
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "x-content-type-options: nosniff",
        ] {
            assert!(answer.head.contains(wanted), "{path} lacks {wanted}: {}", answer.head);
        }
    }
    let index = service.get("/").body;
    assert!(!index.contains("<script>") && !index.contains("style="), "the policy forbids both: {index}");
}

#[test]
fn a_browser_that_has_a_page_does_not_get_it_again() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let head = service.get("/pages/main.js").head;
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().trim().to_owned();
    let again = service.send("GET", "/pages/main.js", &[&format!("If-None-Match: {tag}")], "");
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert_eq!(service.send("GET", "/pages/main.js", &["If-None-Match: \"old\""], "").status, 200);
}

#[test]
fn there_are_no_other_pages() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    for path in ["/pages/nothing.js", "/pages/", "/pages/..%2fservice.rs", "/pages/%2e%2e/Cargo.toml", "/index.html"] {
        assert_eq!(service.get(path).status, 404, "{path}");
    }
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(service.send(method, "/", &[], "").status, 405, "{method}");
    }
    let linked = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: document"];
    assert_eq!(service.send("GET", "/", &linked, "").status, 200, "a link of another site");
    assert_eq!(service.send("GET", "/pages/main.js", &linked, "").status, 403);
}
