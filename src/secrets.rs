//! Finds the secrets in the environment, and masks them in everything that is stored or shown.
//!
//! Keys come from the environment only. The texts of other processes and files are masked on arrival, with a `*` for
//! each byte. Only free text is masked there: numbers, names and code stay as they are. Everything that goes to the
//! terminal, the store, reports and events is masked once more.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::ops::{Range, RangeInclusive};
use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use memchr::memmem::Finder;

/// Endings of a word in the name of a variable with a secret, as in `GITHUB_TOKEN` or `APIKEY`.
/// `TOKENIZERS_PARALLELISM` does not match.
const NAMES: [&str; 12] = [
    "KEY",
    "KEYS",
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
];

/// Last words of the name of a secret variable, as in `GITHUB_PAT`. Elsewhere in a name they mean something else:
/// `SSH_AUTH_SOCK` is a path.
const SECRET_SUFFIXES: [&str; 6] = ["PAT", "PWD", "PASS", "SSHPASS", "AUTH", "CREDS"];

/// The shell's folders, which are not passwords.
const FOLDERS: [&str; 2] = ["PWD", "OLDPWD"];

/// The shortest value that is masked, in bytes. A shorter one occurs in too many harmless words, and is too weak to
/// protect anything.
const MIN_BYTES: usize = 8;

/// The shortest beginning of a longer value that is masked, in bytes: half of the value, but within these bounds. A shorter
/// beginning may be what all keys of a provider have, or an ordinary word. A longer one than the second is telling, however
/// long the value is.
const BEGINNING: RangeInclusive<usize> = 12..=24;

/// How many bytes of text a byte of a secret has at most, as `%2F`.
const PERCENT_ENCODED: usize = 3;

/// The byte that replaces each byte of a secret.
const MASK: u8 = b'*';

/// The secrets of an environment.
struct Secrets {
    /// What is looked for, in small letters: every form of every secret. The longest first, since one may contain another.
    forms: Vec<Form>,
}

/// Finds a form, or a part of it, in a text of small letters.
type Find = fn(&Form, &[u8]) -> Option<Range<usize>>;

/// A form of a secret, in small letters.
struct Form {
    whole: Finder<'static>,
    /// Finds the shortest beginning that is masked.
    beginning: Finder<'static>,
}

static OURS: LazyLock<Secrets> = LazyLock::new(|| Secrets::of(std::env::vars_os()));

/// Returns whether a variable of the environment is a secret, or holds one: the password of a URL, or the value of
/// another variable that is a secret.
pub fn is_secret(name: &str, value: &str) -> bool {
    looks_secret(name) || url_passwords(value).next().is_some() || found_in(value)
}

/// Returns whether a text holds a secret of the environment, for texts that are refused rather than masked.
pub fn found_in(text: &str) -> bool {
    OURS.found_in(text.as_bytes())
}

/// Returns the length in bytes of the longest text that is masked. A reader that truncates a stream keeps that many
/// more bytes, so that it can mask a secret at the cut.
pub fn longest() -> usize {
    PERCENT_ENCODED * OURS.forms.first().map_or(0, |form| form.whole.needle().len())
}

/// Masks the secrets of the environment in any bytes. The length stays the same.
pub fn mask_bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    OURS.masked(bytes)
}

/// Masks the secrets of the environment in a text.
pub fn mask(text: &str) -> Cow<'_, str> {
    OURS.masked_text(text)
}

/// Returns whether something of this name is likely to be a secret.
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    if FOLDERS.contains(&name.as_str()) {
        return false;
    }
    // A trailing number counts secrets of one kind: `DB_PASS2`, `GITHUB_TOKEN_2`.
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).map(|word| word.trim_end_matches(char::is_numeric));
    let mut last = "";
    for word in words.filter(|word| !word.is_empty()) {
        if NAMES.iter().any(|secret| word.ends_with(secret)) {
            return true;
        }
        last = word;
    }
    SECRET_SUFFIXES.contains(&last)
}

/// Masks the secrets of the environment in the string values of a JSON text. Names and numbers stay, so the JSON keeps
/// its form.
pub fn mask_json(json: &str) -> Cow<'_, str> {
    OURS.masked_json(json)
}

/// A stream that masks the secrets of the environment, line by line.
pub struct Masked<W: Write> {
    stream: W,
    line: Vec<u8>,
}

impl Secrets {
    fn of(environment: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let mut all = Vec::new();
        for (name, value) in environment {
            let value = value.to_string_lossy();
            if looks_secret(&name.to_string_lossy()) {
                all.extend(forms(&value));
            } else {
                // Only the password of a URL is secret. The rest may be shown.
                all.extend(url_passwords(&value).flat_map(forms));
            }
        }
        all.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        all.dedup();
        Self { forms: all.into_iter().map(Form::new).collect() }
    }

    fn found_in(&self, bytes: &[u8]) -> bool {
        matches!(self.masked(bytes), Cow::Owned(_))
    }

    fn masked<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut masked = Cow::Borrowed(bytes);
        if bytes.len() < MIN_BYTES || self.forms.is_empty() {
            return masked;
        }
        // In capitals, a secret is one, too.
        let mut folded = bytes.to_ascii_lowercase();
        self.hide(&mut folded, |place| masked.to_mut()[place].fill(MASK));
        if folded.contains(&b'%') {
            let (mut decoded, places) = percent_decoded(&folded);
            self.hide(&mut decoded, |place| masked.to_mut()[places[place.start]..places[place.end]].fill(MASK));
        }
        masked
    }

    /// Masks the secrets in a text of small letters, and tells where they were.
    fn hide(&self, text: &mut [u8], mut found: impl FnMut(Range<usize>)) {
        // One form may begin as another, which is there as a whole.
        for find in [Form::find as Find, Form::find_beginning] {
            for form in &self.forms {
                while let Some(place) = find(form, text) {
                    text[place.clone()].fill(MASK);
                    found(place);
                }
            }
        }
    }

    fn masked_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.masked(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Whole characters became ASCII, so the bytes are still text.
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    fn masked_json<'a>(&self, json: &'a str) -> Cow<'a, str> {
        if self.forms.is_empty() {
            return Cow::Borrowed(json);
        }
        let (mut masked, mut rest) = (String::with_capacity(json.len()), json);
        while let Some(start) = rest.find('"') {
            let (before, string) = rest.split_at(start);
            let (string, after) = string.split_at(string_bytes(string));
            masked.push_str(before);
            rest = after;
            let is_name = after.trim_start().starts_with(':');
            // The decoded string is masked. Masking the encoded one could leave half an escape.
            let text = serde_json::from_str::<String>(string).ok().filter(|_| !is_name).unwrap_or_default();
            match self.masked_text(&text) {
                Cow::Owned(text) => masked.push_str(&serde_json::Value::from(text).to_string()),
                Cow::Borrowed(_) => masked.push_str(string),
            }
        }
        masked.push_str(rest);
        Cow::Owned(masked)
    }
}

impl Form {
    fn new(whole: Vec<u8>) -> Self {
        // Many files begin as the path of a file with a key does.
        let is_path = matches!(whole.first(), Some(b'/' | b'~' | b'.')) || whole.get(1) == Some(&b':');
        let half = whole.len().div_ceil(2).clamp(*BEGINNING.start(), *BEGINNING.end());
        let shortest = if is_path { whole.len() } else { half.min(whole.len()) };
        let [beginning, whole] = [&whole[..shortest], &whole].map(|bytes| Finder::new(bytes).into_owned());
        Self { whole, beginning }
    }

    /// Finds the form in a text of small letters.
    fn find(&self, text: &[u8]) -> Option<Range<usize>> {
        let start = self.whole.find(text)?;
        Some(start..start + self.whole.needle().len())
    }

    /// Finds as much of the form's beginning as is there: a server may have truncated it.
    fn find_beginning(&self, text: &[u8]) -> Option<Range<usize>> {
        let start = self.beginning.find(text)?;
        let same = text[start..].iter().zip(self.whole.needle()).take_while(|(one, other)| one == other).count();
        // No character is cut into halves.
        let is_inside = |end: &usize| text.get(*end).is_some_and(|byte| byte & 0xc0 == 0x80);
        let end = (start + 1..=start + same).rev().find(|end| !is_inside(end))?;
        Some(start..end)
    }
}

/// Decodes every `%2f` of a text of small letters. Returns the bytes, in small letters again, and where in the text each
/// begins, with the text's end behind them.
fn percent_decoded(text: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut decoded, mut places, mut at) = (Vec::with_capacity(text.len()), Vec::with_capacity(text.len() + 1), 0);
    while let Some(byte) = text.get(at) {
        places.push(at);
        let code = digit(at + 1).zip(digit(at + 2)).filter(|_| *byte == b'%');
        decoded.push(code.map_or(*byte, |(high, low)| (high * 16 + low) as u8).to_ascii_lowercase());
        at += if code.is_some() { PERCENT_ENCODED } else { 1 };
    }
    places.push(text.len());
    (decoded, places)
}

/// Returns the length in bytes of the JSON string at the start of a text, with its quotes. A string that does not end
/// takes the whole text.
fn string_bytes(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the passwords of the URLs in a text, as written: `scheme://user:password@host`.
fn url_passwords(text: &str) -> impl Iterator<Item = &str> {
    text.split("://").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| matches!(c, '/' | '?' | '#') || c.is_whitespace());
        let (user, _host) = rest[..end.unwrap_or(rest.len())].rsplit_once('@')?;
        user.split_once(':').map(|(_, password)| password)
    })
}

/// Returns the forms in which a value may appear, in small letters: plain, encoded and as JSON, line by line, since output
/// is often split into lines.
fn forms(value: &str) -> Vec<Vec<u8>> {
    // Masking a run of mask bytes would hide nothing.
    let long = |form: &str| form.len() >= MIN_BYTES && form.bytes().any(|byte| byte != MASK);
    let mut forms = Vec::new();
    for line in value.lines().map(str::trim).filter(|line| long(line)) {
        for mut form in encodings(line).into_iter().filter(|form| long(form)) {
            form.make_ascii_lowercase();
            let quoted = serde_json::Value::from(form.as_str()).to_string();
            forms.extend(quoted.get(1..quoted.len() - 1).map(|form| form.as_bytes().to_vec()));
            forms.push(form.into_bytes());
        }
    }
    forms
}

/// Returns a secret and the ways in which a program that has it may write it: backwards, in hexadecimal digits, and in
/// Base64.
fn encodings(secret: &str) -> Vec<String> {
    let hex = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut encodings = vec![secret.to_owned(), secret.chars().rev().collect(), hex];
    for alphabet in [BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD] {
        // Of a longer text, three bytes make four characters. A secret begins at one of three places among them. The
        // characters at its ends depend on its neighbours, too.
        encodings.extend((0..3).map(|before| {
            let encoded = alphabet.encode([&vec![0; before], secret.as_bytes()].concat());
            encoded[(before * 8).div_ceil(6)..(before + secret.len()) * 8 / 6].to_owned()
        }));
    }
    encodings
}

impl<W: Write> Masked<W> {
    /// Makes a stream that masks what is written to `stream`.
    pub fn new(stream: W) -> Self {
        Self { stream, line: Vec::new() }
    }

    /// Writes the first `length` bytes of the buffer to the stream.
    fn flush_prefix(&mut self, length: usize) -> io::Result<()> {
        let rest = self.line.split_off(length);
        let lines = std::mem::replace(&mut self.line, rest);
        self.stream.write_all(escape(&String::from_utf8_lossy(&mask_bytes(&lines))).as_bytes())
    }
}

/// Escapes characters that would move a terminal's cursor or reorder its text: control characters other than line ends
/// and tabs, and directional formatting (Unicode, UAX 9). The form is that of JSON, so JSON keeps its meaning.
pub fn escape(text: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let show = |c: char| if is_unsafe(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(text.chars().map(show).collect())
}

impl<W: Write> Write for Masked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if let Some(end) = memchr::memrchr(b'\n', &self.line) {
            self.flush_prefix(end + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_prefix(self.line.len())?;
        self.stream.flush()
    }
}

impl<W: Write> Drop for Masked<W> {
    fn drop(&mut self) {
        // A caller that wants to see an error flushes.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(variables: &[(&str, &str)]) -> Secrets {
        Secrets::of(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn secret_names_are_recognised_by_their_words() {
        for name in [
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "HF_TOKEN",
            "DB_PASSWORD",
            "AWS_SECRET_ACCESS_KEY",
            "apikey",
            "api-key",
            "DB_PASS",
            "SSHPASS",
            "MYSQL_PWD",
            "GITHUB_PAT",
            "NPM_AUTH",
            "AWS_CREDS",
            "DB_PASS2",
            "GITHUB_TOKEN_2",
        ] {
            assert!(looks_secret(name), "{name}");
        }
        for name in [
            "PWD",
            "OLDPWD",
            "SSH_AUTH_SOCK",
            "XAUTHORITY",
            "COMPASS",
            "GLIBC_COMPAT",
            "PATH",
            "HOME",
            "TOKENIZERS_PARALLELISM",
            "KEYBOARD",
            "LS_COLORS",
            "CUDA_HOME",
            "XDG_CACHE_HOME",
        ] {
            assert!(!looks_secret(name), "{name}");
        }
    }

    #[test]
    fn values_are_masked_in_their_length_and_short_ones_left_alone() {
        let secrets =
            secrets(&[("A_KEY", "hunter2hunter2"), ("B_TOKEN", "short"), ("C_SECRET", "two \"lines\"\nof a secret")]);
        let masked = |text: &str| secrets.masked_text(text).into_owned();
        insta::assert_snapshot!(masked("the key is hunter2hunter2, of a short one"), @"the key is **************, of a short one");
        insta::assert_snapshot!(masked("hunter2hunter2hunter2hunter2!"), @"****************************!");
        insta::assert_snapshot!(masked("said: two \"lines\" and of a secret"), @"said: *********** and ***********");
        insta::assert_snapshot!(masked(r#"{"said": "two \"lines\""}"#), @r#"{"said": "*************"}"#);
        assert!(matches!(secrets.masked_text("nothing here"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_secret_is_masked_in_the_encodings_in_which_a_server_may_echo_it() {
        let secrets = secrets(&[("A_KEY", "sk-Sécret/42+\"x?>~")]);
        let key = "sk-Sécret/42+\"x?>~";
        for (before, after) in [("", ""), ("Bearer ", "\n"), ("k:", "!"), ("key=", "..")] {
            let text = format!("{before}{key}{after}");
            let encoded = [
                text.to_ascii_uppercase(),
                text.to_ascii_lowercase(),
                text.chars().rev().collect(),
                BASE64_STANDARD_NO_PAD.encode(&text),
                BASE64_URL_SAFE_NO_PAD.encode(&text),
                text.bytes().map(|byte| format!("{byte:02x}")).collect(),
                text.bytes().map(|byte| format!("{byte:02X}")).collect(),
            ];
            for form in encoded {
                let masked = secrets.masked_text(&form).into_owned();
                // At most a part of the first and of the last character of Base64 remains beside the neighbours.
                let stars = masked.chars().filter(|c| *c == '*').count();
                assert!(stars + 3 >= key.len(), "{form}: {masked}");
                let json = serde_json::json!({ "echo": form }).to_string();
                assert!(secrets.masked_json(&json).contains(&"*".repeat(stars)), "{json}");
            }
        }
    }

    #[test]
    fn a_secret_that_a_server_has_percent_encoded_or_truncated_is_masked() {
        let key = "sk-proj/42+Sécret=7f3a9c51e0b84d26";
        let secrets = secrets(&[("A_KEY", key), ("B_CREDENTIALS", "/home/somebody/keys/of-the-cloud.json")]);
        let every: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let special: String = key
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
                _ => format!("%{byte:02x}"),
            })
            .collect();
        for form in [&every, &special, &every.to_ascii_lowercase(), &special.to_ascii_uppercase()] {
            let text = format!("100% of ?key={form}&n=1");
            assert_eq!(secrets.masked_text(&text), format!("100% of ?key={}&n=1", "*".repeat(form.len())));
        }
        for (kept, is_masked) in [(34, true), (26, true), (18, true), (16, false), (8, false)] {
            let text = format!("the key {}... is wrong", &key[..kept]);
            let masked = if is_masked { text.replace(&key[..kept], &"*".repeat(kept)) } else { text.clone() };
            assert_eq!(secrets.masked_text(&text), masked, "{kept}");
        }
        let ordinary = "/home/somebody/keys/of-the-house 100%";
        assert_eq!(secrets.masked_text(ordinary), ordinary);
    }

    #[test]
    fn a_secret_that_holds_another_is_masked_whole() {
        let secrets = secrets(&[("A_KEY", "abcdefgh"), ("B_KEY", "abcdefgh-and-more")]);
        assert_eq!(secrets.masked_text("abcdefgh-and-more abcdefgh"), "***************** ********");
    }

    #[test]
    fn of_a_url_the_password_is_masked() {
        let secrets = secrets(&[
            ("HTTPS_PROXY", "http://somebody:opensesame@proxy:3128/"),
            ("DATABASES", "postgres://u:p@ssw0rd:1@db/x postgres://u@opensource"),
            ("HOMEPAGE", "https://host:80808080/a:b@cdefghijk"),
        ]);
        insta::assert_snapshot!(secrets.masked_text("via http://somebody:opensesame@proxy:3128/"), @"via http://somebody:**********@proxy:3128/");
        insta::assert_snapshot!(secrets.masked_text("u:p@ssw0rd:1@db, opensource, 80808080, cdefghijk"), @"u:**********@db, opensource, 80808080, cdefghijk");
    }

    #[test]
    fn json_stays_json_of_the_same_form() {
        let secrets = secrets(&[
            ("A_KEY", "16777216"),
            ("B_KEY", "measurements"),
            ("C_KEY", "nothing\\\"new"),
            ("D_KEY", "nsecrets"),
        ]);
        let json = r#"{"measurements": [{"bytes":16777216}], "z": "the 16777216 measurements", "a":"nothing\\\"new","b":"\nsecrets","c" : 1.50}"#;
        insta::assert_snapshot!(secrets.masked_json(json), @r#"{"measurements": [{"bytes":16777216}], "z": "the ******** ************", "a":"************","b":"\nsecrets","c" : 1.50}"#);
        for broken in ["", "\"", "\"no end\\", "{\"a\":"] {
            assert_eq!(secrets.masked_json(broken), broken);
        }
    }
}
