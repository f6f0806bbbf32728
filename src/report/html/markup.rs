//! Turns the Markdown of sentences and tables into inert HTML. Names from kernels, models and logs are part of it, so links,
//! images and HTML become text.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// Converts paragraphs, lists and tables.
pub(super) fn blocks(markdown: &str) -> String {
    let mut page = String::new();
    html::push_html(&mut page, events(markdown).flat_map(framed));
    // The page's policy forbids styles of elements. A text cannot match, because its quotes are escaped.
    page.replace(" style=\"text-align: right\"", " class=\"figures\"")
}

/// Converts a sentence, without a paragraph around it.
pub(super) fn inline(markdown: &str) -> String {
    let is_paragraph =
        |event: &Event<'_>| matches!(event, Event::Start(Tag::Paragraph) | Event::End(TagEnd::Paragraph));
    let mut page = String::new();
    html::push_html(&mut page, events(markdown).filter(|event| !is_paragraph(event)));
    page.trim_end().to_owned()
}

fn events(markdown: &str) -> impl Iterator<Item = Event<'_>> {
    Parser::new_ext(markdown, Options::ENABLE_TABLES).filter_map(inert)
}

/// Keeps text with its structure. Drops what could load or lead somewhere.
fn inert(event: Event<'_>) -> Option<Event<'_>> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::HtmlBlock) => Some(Event::Start(Tag::Paragraph)),
        Event::End(TagEnd::HtmlBlock) => Some(Event::End(TagEnd::Paragraph)),
        // A fence names a language, which would become a class.
        Event::Start(Tag::CodeBlock(_)) => Some(Event::Start(Tag::CodeBlock(pulldown_cmark::CodeBlockKind::Indented))),
        Event::Start(
            Tag::Paragraph
            | Tag::List(_)
            | Tag::Item
            | Tag::Table(_)
            | Tag::TableHead
            | Tag::TableRow
            | Tag::TableCell
            | Tag::Emphasis
            | Tag::Strong
            | Tag::BlockQuote(_),
        )
        | Event::End(
            TagEnd::Paragraph
            | TagEnd::List(_)
            | TagEnd::Item
            | TagEnd::Table
            | TagEnd::TableHead
            | TagEnd::TableRow
            | TagEnd::TableCell
            | TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::CodeBlock
            | TagEnd::BlockQuote(_),
        )
        | Event::Text(_)
        | Event::Code(_)
        | Event::SoftBreak
        | Event::HardBreak => Some(event),
        _ => None,
    }
}

/// Puts a frame around a table, in which a wide one scrolls. The keyboard reaches it.
fn framed(event: Event<'_>) -> Vec<Event<'_>> {
    const OPEN: &str = "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\">\n";
    let html = |text: &'static str| Event::Html(CowStr::Borrowed(text));
    match event {
        Event::Start(Tag::Table(_)) => vec![html(OPEN), event],
        Event::End(TagEnd::Table) => vec![event, html("</div>\n")],
        _ => vec![event],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_and_tables_keep_their_structure() {
        assert_eq!(
            inline("**Helps**: `BLOCK` 1 → 2, *1.2×*."),
            "<strong>Helps</strong>: <code>BLOCK</code> 1 → 2, <em>1.2×</em>."
        );
        insta::assert_snapshot!(blocks("| case | us |\n|---|--:|\n| a\\|b | 1.5 |\n"), @r#"
        <div class="scroll" tabindex="0" role="group" aria-label="Table">
        <table><thead><tr><th>case</th><th class="figures">us</th></tr></thead><tbody>
        <tr><td>a|b</td><td class="figures">1.5</td></tr>
        </tbody></table>
        </div>
        "#);
    }

    #[test]
    fn hostile_text_becomes_neither_markup_nor_a_link() {
        let hostile = [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "text <b onclick=\"x()\">bold</b>",
            "[click](javascript:alert(1)) ![x](https://example.com/x.png) <https://example.com>",
            "```js\"><script>\nalert(1)\n```",
            "# heading\n<details open><summary>s</summary>",
            "`<script>`",
            "[x]: javascript:alert(1)\n[x]",
        ];
        for text in hostile {
            for html in [blocks(text), inline(text)] {
                let safe = ["<script", "<img", "<b ", "<a ", "<details", "<h1", "href", "src=\"", "class=\"lang"];
                assert!(safe.iter().all(|markup| !html.contains(markup)), "{text:?} became {html}");
            }
        }
        assert_eq!(inline("a < b & c"), "a &lt; b &amp; c");
    }
}
