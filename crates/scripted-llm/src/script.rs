//! The answers of the server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A script. Each request gets the next reply of the first rule that matches it and has one left, else the next of
/// `replies`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Replies for certain requests.
    pub rules: Vec<Rule>,
    /// Replies for all other requests, in turn.
    pub replies: Vec<Reply>,
    /// The models that the server lists.
    pub models: Vec<String>,
}

/// Replies for the requests whose body contains a text, such as the name of the form of the answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The text.
    pub contains: String,
    /// The replies, in turn.
    pub replies: Vec<Reply>,
    /// Whether the last reply is repeated.
    #[serde(default)]
    pub repeat: bool,
}

/// A reply to a client. The default is a complete answer without content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    /// The status. Any other than 200 comes with `text` as its body.
    pub status: u16,
    /// Headers, such as `retry-after`.
    pub headers: BTreeMap<String, String>,
    /// The answer as JSON.
    pub answer: Option<Value>,
    /// The answer as a text instead: prose, or broken JSON.
    pub text: String,
    /// How often the text is repeated, for answers that are too large.
    pub times: usize,
    /// The place of the answer.
    pub form: Form,
    /// The number of events that the answer is divided into.
    pub events: usize,
    /// The number of bytes that are sent at once; 0 for all.
    pub piece_bytes: usize,
    /// Milliseconds before the headers.
    pub delay_ms: u64,
    /// Milliseconds after each piece.
    pub pause_ms: u64,
    /// The tokens; `None` for a server that does not report them.
    pub usage: Option<Tokens>,
    /// The API's reason why the model stopped; `None` for the usual one.
    pub stop: Option<String>,
    /// An error within the stream, after the answer.
    pub stream_error: Option<String>,
    /// The content type; `None` for that of a stream.
    pub content_type: Option<String>,
    /// How the connection ends.
    pub end: End,
}

/// The place of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// In a tool call if the request has tools, else in the text.
    #[default]
    Requested,
    /// In a tool call.
    Tool,
    /// In the text.
    Text,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// After the whole reply.
    #[default]
    Whole,
    /// Without any reply.
    CutBeforeHeaders,
    /// After this many bytes of the body.
    CutAfter(usize),
    /// By the client, which waits for headers.
    StallBeforeHeaders,
    /// By the client, which waits for more than this many bytes of the body.
    StallAfter(usize),
}

/// The tokens of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tokens {
    /// Input that is neither read from the cache nor written to it.
    pub input: u64,
    /// Input read from the cache.
    pub cached: u64,
    /// Input written to the cache.
    pub cache_write: u64,
    /// Output.
    pub output: u64,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { input: 100, cached: 0, cache_write: 0, output: 10 }
    }
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            status: 200,
            headers: BTreeMap::new(),
            answer: None,
            text: String::new(),
            times: 1,
            form: Form::Requested,
            events: 1,
            piece_bytes: 0,
            delay_ms: 0,
            pause_ms: 0,
            usage: Some(Tokens::default()),
            stop: None,
            stream_error: None,
            content_type: None,
            end: End::Whole,
        }
    }
}

impl Script {
    /// Makes a script of replies in turn.
    pub fn of(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { replies: replies.into_iter().collect(), ..Self::default() }
    }

    /// Takes the reply to the next request.
    pub(crate) fn next(&mut self, body: &str) -> Reply {
        for rule in self.rules.iter_mut().filter(|rule| body.contains(&rule.contains)) {
            match rule.replies.len() {
                0 => {}
                1 if rule.repeat => return rule.replies[0].clone(),
                _ => return rule.replies.remove(0),
            }
        }
        if self.replies.is_empty() {
            return Reply::status(400, "the script has no reply left for this request");
        }
        self.replies.remove(0)
    }
}

impl Reply {
    /// Makes a reply with an answer in the requested form.
    pub fn answer(answer: Value) -> Self {
        Self { answer: Some(answer), ..Self::default() }
    }

    /// Makes a reply with a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), form: Form::Text, ..Self::default() }
    }

    /// Makes a reply with an error's status.
    pub fn status(status: u16, message: impl Into<String>) -> Self {
        Self { status, text: message.into(), ..Self::default() }
    }

    /// Returns the content of the answer.
    pub(crate) fn content(&self) -> String {
        match &self.answer {
            Some(answer) => answer.to_string(),
            None => self.text.repeat(self.times),
        }
    }

    /// Returns the content in as many parts as there are events.
    pub(crate) fn parts(&self) -> Vec<String> {
        let chars: Vec<char> = self.content().chars().collect();
        let size = chars.len().div_ceil(self.events.max(1)).max(1);
        chars.chunks(size).map(|part| part.iter().collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_goes_first_and_may_repeat_its_last_reply() {
        let rule =
            Rule { contains: "plan".to_owned(), replies: vec![Reply::text("1"), Reply::text("2")], repeat: true };
        let mut script = Script { rules: vec![rule], ..Script::of([Reply::text("other")]) };
        let texts = ["plan", "code", "a plan", "plan", "code"].map(|body| script.next(body).text);
        assert_eq!(texts[..4], ["1", "other", "2", "2"]);
        assert!(texts[4].contains("no reply left"));
    }

    #[test]
    fn a_script_is_json_and_unknown_keys_are_errors() {
        let script = r#"{"replies": [{"answer": {"a": 1}, "events": 3, "end": {"cut_after": 9}, "usage": null}]}"#;
        let script: Script = serde_json::from_str(script).unwrap();
        let reply = &script.replies[0];
        assert_eq!((reply.end, reply.usage, reply.status), (End::CutAfter(9), None, 200));
        assert_eq!(reply.parts(), ["{\"a", "\":1", "}"]);
        assert!(serde_json::from_str::<Script>(r#"{"reply": []}"#).is_err());
    }
}
