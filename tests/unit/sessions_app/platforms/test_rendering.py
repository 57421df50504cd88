"""Text for channels: dialects, cuts, and previews of unfinished Markdown."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.platforms.adapters.telegram.dialect import TelegramHtml
from sessions_app.platforms.rendering.renderer import FILENAME, MarkdownSource, PlainText, close_open_marks, render
from sessions_app.platforms.rendering.splitter import is_grapheme_border, utf16_length

TELEGRAM = TelegramHtml()


def html(markdown: str) -> str:
    [part] = render(markdown, TELEGRAM, 4096)
    return part.body


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**b** *i* ~~s~~ `c<d`", "<b>b</b> <i>i</i> <s>s</s> <code>c&lt;d</code>"),
        ("# Head", "<b>Head</b>"),
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
        ("[t](https://e.org/?a=1&b=2)", '<a href="https://e.org/?a=1&amp;b=2">t</a> (e.org)'),
        ("[https://e.org](https://e.org)", "https://e.org"),
        ("[x](ftp://e.org)", "x"),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("![a cat](https://e.org/c.png)", '<a href="https://e.org/c.png">a cat</a> (e.org)'),
        ("[a **b** c](https://e.org)", '<a href="https://e.org">a <b>b</b> c</a> (e.org)'),
        ("```py\nx = 1 < 2\n```", '<pre><code class="language-py">x = 1 &lt; 2</code></pre>'),
        ("```\nplain\n```", "<pre>plain</pre>"),
        ("- a\n- b\n  1. c", "• a\n• b\n  1. c"),
        ("- [ ] open\n- [x] done", "☐ open\n☑ done"),
        ("> q\n> > deeper", "<blockquote>q\n\ndeeper</blockquote>"),
        ("3. c\n4. d", "3. c\n4. d"),
        ("one\ntwo", "one\ntwo"),
        ("**`x`**", "<code>x</code>"),
        ("[`x`](https://e.org)", '<a href="https://e.org">x</a> (e.org)'),
        ("[](https://e.org)", "[](https://e.org)"),
        ("*a **b***", "<i>a <b>b</b></i>"),
        ("", ""),
    ],
)
def test_markdown_becomes_telegram_html(markdown, shown):
    assert html(markdown) == shown


def test_a_table_is_aligned_in_telegram_and_a_list_in_plain_text():
    table = "| name | n |\n|---|---|\n| apple | 2 |\n| fig | 30 |"
    assert html(table) == "<pre>name   n\n─────  ──\napple  2\nfig    30</pre>"
    assert render(table, PlainText(), 500)[0].body == "name: apple\nn: 2\n\nname: fig\nn: 30"


def test_plain_text_shows_addresses():
    assert render("[**t** x](https://e.org) end", PlainText(), 500)[0].body == "t x (https://e.org) end"


def test_a_link_of_several_styles_is_never_cut():
    text = "word " * 50 + "[a **link** of *several* words](https://e.org) " + "word " * 50
    for limit in range(240, 320):
        bodies = [part.body for part in render(text, TELEGRAM, limit)]
        assert sum("of <i>several</i> words</a>" in body and ">a <b>link</b>" in body for body in bodies) == 1, limit


@pytest.mark.parametrize("before", ["", "see ", "a " * 120])
@pytest.mark.parametrize("words", ["some words", "word " * 100 + "end"])
@pytest.mark.parametrize("length", [20, 150, 170, 1000])
def test_plain_text_sends_an_address_of_any_length_whole(before, words, length):
    address = "https://e.org/" + "x" * length
    parts = [part.body for part in render(f"{before}[{words}]({address}) end", PlainText(), 200)]
    assert all(len(part) <= 200 for part in parts)
    assert "".join("".join(parts).split()) == "".join(f"{before}{words}({address})end".split())
    assert length > 150 or any(f"({address})" in part for part in parts), "it can be opened"


def test_long_text_is_cut_at_blank_lines_first():
    parts = render("\n\n".join(["word " * 15] * 6), TELEGRAM, 200)
    assert len(parts) == 3 and all(part.text.count("\n\n") == 1 for part in parts)


def test_a_code_block_that_is_cut_is_closed_and_opened_again():
    code = "```py\n" + "\n".join(f"line_{number} = {number}" for number in range(40)) + "\n```"
    parts = render(code, TELEGRAM, 300)
    assert len(parts) > 1
    assert all(part.body.startswith('<pre><code class="language-py">line_') for part in parts)
    assert all(part.body.endswith("</code></pre>") for part in parts)
    again = render(code, MarkdownSource(), 300)
    assert all(part.body.startswith("```py\nline_") and part.body.endswith("\n```") for part in again)


def test_a_link_is_never_cut():
    text = "word " * 50 + "[a link of several words](https://e.org) " + "word " * 50
    for limit in range(240, 320, 5):
        bodies = [part.body for part in render(text, TELEGRAM, limit)]
        assert sum("a link of several words</a>" in body for body in bodies) == 1, limit


def test_what_cannot_stay_whole_is_cut_all_the_same():
    for text in ("[" + "word " * 200 + "](https://e.org)", "a" + "\u0301" * 1000, "\U0001f44d\U0001f3fd" * 600):
        parts = render(text, TELEGRAM, 400)
        assert len(parts) > 1 and all(utf16_length(part.text) <= 400 for part in parts)


def test_a_very_long_answer_becomes_its_beginning_and_a_file():
    text = "\n\n".join("word " * 30 for _ in range(100))
    *beginning, file = render(text, TELEGRAM, 500, takes_files=True)
    assert len(beginning) == 2 and file.filename == FILENAME and file.body == text


class _Balanced(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.bad = [], "", False

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)

    def handle_endtag(self, tag):
        self.bad |= not self.open or self.open.pop() != tag

    def handle_data(self, data):
        self.text += data


PIECES = st.sampled_from(
    [
        "**bold**",
        "*it*",
        "`co < de`",
        "[link text](https://e.org)",
        "word",
        "😀👨‍👩‍👧",
        "🇩🇪🇫🇷",
        "\n\n",
        "\n",
        "- item\n",
        "> quote\n",
        "```py\ncode & more\n```\n",
        "<b>",
        "&amp;",
        "ä́",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "a sentence. Another! ",
    ]
)


@given(st.lists(PIECES, max_size=60).map(" ".join), st.integers(30, 400))
def test_every_part_fits_is_well_formed_and_nothing_is_lost(markdown, limit):
    parts = render(markdown, TELEGRAM, limit)
    [whole] = render(markdown, TELEGRAM, 10**6)
    for part in parts:
        read = _Balanced()
        read.feed(part.body)
        read.close()
        assert not read.bad and not read.open and read.text == part.text
        assert utf16_length(part.text) <= limit
        assert part.text or len(parts) == 1
    squeezed = ["".join(text.split()) for text in ("".join(part.text for part in parts), whole.text)]
    assert squeezed[0] == squeezed[1]


@pytest.mark.parametrize("cluster", ["👨‍👩‍👧", "🇩🇪", "é", "👍🏽", "1️⃣", "각", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"])
def test_a_grapheme_has_no_border_inside(cluster):
    text = f"a{cluster}b"
    assert [index for index in range(len(text) + 1) if is_grapheme_border(text, index)] == [
        0,
        1,
        len(text) - 1,
        len(text),
    ]


@pytest.mark.parametrize(
    ("partial", "shown"),
    [
        ("a **bo", "a <b>bo</b>"),
        ("a *b", "a <i>b</i>"),
        ("x `co", "x <code>co</code>"),
        ("x ~~st", "x <s>st</s>"),
        ("fine **bold** and **", "fine <b>bold</b> and"),
        ("```py\nx = 1", '<pre><code class="language-py">x = 1</code></pre>'),
        ("2 * 3", "2 * 3"),
        ("- x **y", "• x <b>y</b>"),
        ("one\n\n`", "one"),
        ("```\nx\n```\n\nand **bo", "<pre>x</pre>\n\nand <b>bo</b>"),
        ("~~~\nx **", "<pre>x **</pre>"),
    ],
)
def test_a_preview_shows_no_bare_signs(partial, shown):
    assert html(close_open_marks(partial)) == shown


@given(st.text(alphabet="ab *`~_\n#>-[]()!|", max_size=80))
def test_closing_marks_loses_no_text(partial):
    shown = html(close_open_marks(partial))
    assert re.sub(r"[^ab]", "", re.sub(r"<[^>]*>", "", shown)) == re.sub(
        r"[^ab]", "", re.sub(r"<[^>]*>", "", html(partial))
    )


def test_what_follows_the_signs_of_a_code_block_is_not_repeated_in_each_part():
    parts = render(f"```{'x' * 500}\n{'y ' * 2000}", MarkdownSource(), 1000)
    assert all(len(part.body) <= 1000 for part in parts) and sum(part.body.count("x") for part in parts) == 500
