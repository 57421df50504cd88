"""Answers become HTML that is safe and fits the page."""

import re
from functools import partial
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.surfaces.base import markdown
from sessions_app.surfaces.base.highlight import highlighted
from sessions_app.surfaces.base.linkify import pieces
from sessions_app.surfaces.base.markdown import render
from sessions_app.surfaces.base.sanitizer import sanitised
from tests.support import code_stylesheet
from tests.support.cpu_cost import seconds_of

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<script>alert(1)</script>",
    "<a href='javascript:alert(1)'>x</a>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java&#10;script:alert(1))",
    "[x](&#x6A;avascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:alert(1))",
    "<javascript:alert(1)>",
    "[x](/logout)",
    "[x](//evil.example)",
    "![x](https://evil.example/a.png)",
    "![x](data:image/svg+xml,<svg onload=alert(1)>)",
    "[![x](https://evil.example/a.png)](https://evil.example)",
    '```"><img src=x onerror=alert(1)>\ncode\n```',
    "| <img src=x onerror=alert(1)> |\n| --- |\n| <b onclick=alert(1)> |",
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    "[x]: javascript:alert(1)\n\n[x]",
    '<https://e.example/" onmouseover="alert(1)>',
    'https://e.example/"onmouseover=alert(1)',
    '[x](https://e.example "\' onmouseover=alert(1)")',
    '![" onerror="alert(1)](https://e.example/x)',
    "<style>*{display:none}</style>",
]


class _Collector(HTMLParser):
    """Return every tag and attribute of an HTML text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def _assert_safe(html: str) -> None:
    found = _Collector(html)
    assert not found.tags & {"img", "svg", "script", "iframe", "style", "noscript", "form", "input", "math", "object"}
    assert not [
        name for name, _ in found.attributes if name.startswith("on") or name in ("style", "id", "srcset", "src")
    ]
    for name, value in found.attributes:
        if name == "href":
            assert urlsplit(value).scheme in ("http", "https", "mailto")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_is_inert(text: str) -> None:
    _assert_safe(render(text))


@given(
    st.lists(st.sampled_from([*HOSTILE, "\n", "\n\n", "`", "**", "> ", "- ", "| ", "word"]), max_size=8).map("".join)
)
def test_hostile_markdown_is_inert_in_any_mixture(text: str) -> None:
    _assert_safe(render(text))


@pytest.mark.parametrize(
    "html", ["<img src=x onerror=alert(1)>", '<a href="javascript:x">a</a>', '<p id="x" style="a:b">', "<form>"]
)
def test_the_allow_list_is_safe_by_itself(html: str) -> None:
    _assert_safe(sanitised(html))


def test_raw_html_stays_text() -> None:
    assert render("a <b>b</b>") == '<p dir="auto">a &lt;b&gt;b&lt;/b&gt;</p>\n'


def test_links_open_a_new_tab_and_show_their_host() -> None:
    html = render("[docs](https://python.org/3)")
    assert 'href="https://python.org/3" target="_blank" rel="noopener nofollow noreferrer"' in html
    assert '</a> <span class="whereto">(python.org)</span>' in html
    assert "whereto" not in render("https://python.org/3")


@pytest.mark.parametrize(
    "text", ["[аpple.com](https://аpple.com/x)", "https://аpple.com/x", "![аpple.com](https://аpple.com)"]
)
def test_a_link_shows_letters_of_other_scripts_in_ascii(text: str) -> None:
    assert "(xn--pple-43d.com)" in render(text)


def test_a_link_that_carries_much_data_is_marked() -> None:
    assert "(python.org, long query)" in render(f"[docs](https://python.org/?q={'x' * 200})")


def test_remote_images_become_links_with_their_host() -> None:
    html = render("![a chart](https://cdn.example/chart.png)")
    assert '<a class="image" href="https://cdn.example/chart.png"' in html
    assert ">a chart (cdn.example)</a>" in html


def test_headings_are_below_those_of_the_page() -> None:
    html = render("# a\n\n### b\n\n###### c")
    assert html == '<h3 dir="auto">a</h3>\n<h5 dir="auto">b</h5>\n<h6 dir="auto">c</h6>\n'


@pytest.mark.parametrize(
    "text", ["נטוי", "# مرحبا", "- واحد\n- two", "1. واحد", "> نص", "| أ | ب |\n|---|---|\n| ج | د |"]
)
def test_each_top_level_block_has_the_direction_of_its_text(text: str) -> None:
    assert render(text).count('dir="auto"') == 1


@pytest.mark.parametrize(
    "source",
    [
        r"\(a_1 * b_2 * c\)",
        r"\[ \frac{a}{b} < \{x\} \]",
        "$x_1 * y_1$",
        "$$a\n= b\n+ c$$",
        r"\[" + "\na_1\n- b_1\n# c\n" + r"\]",
    ],
)
def test_maths_keeps_its_source(source: str) -> None:
    inline = f"So {source} holds." if "\n" not in source else source
    for text in (source, inline, f"So\n{source}\n\nholds.", f"- {source.replace(chr(10), chr(10) + '  ')}"):
        shown = unescape(re.sub(r"<[^>]+>", "", render(text)))
        assert " ".join(source.split()) in " ".join(shown.split())
        assert 'class="math"' in render(text)


@pytest.mark.parametrize("text", ["It costs $5 and $10, or $5-$10.", r"\(open", r"\[1] and \$2$", "$ $", "$$", r"\(\)"])
def test_other_dollars_and_brackets_stay_text(text: str) -> None:
    assert "math" not in render(f"So {text}")


def test_tables_align_by_class_in_a_box_of_their_own() -> None:
    html = render("| a | b |\n|:-:|--:|\n| 1 | 2 |")
    assert html.startswith('<div class="table" role="group" aria-label="Table" tabindex="0"><table dir="auto">')
    assert '<th class="align-center">a</th>' in html
    assert '<td class="align-right">2</td>' in html


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("H~2~O and CO~2~", "H<sub>2</sub>O and CO<sub>2</sub>"),
        ("mc^2^, 10^-3^", "mc<sup>2</sup>, 10<sup>-3</sup>"),
        ("~~a b~~ ~c~ a~~b~~", "<s>a b</s> <s>c</s> a<s>b</s>"),
        ("2^10 is 5~6, x^2^^ and [^1] with [^1]", "2^10 is 5~6, x^2^^ and [^1] with [^1]"),
        ("`H~2~O`", "<code>H~2~O</code>"),
        ("x^<b>^ and x^\\^^", "x^&lt;b&gt;^ and x<sup>^</sup>"),
    ],
)
def test_subscript_and_superscript_follow_a_word_and_have_no_spaces(text: str, shown: str) -> None:
    assert render(text) == f'<p dir="auto">{shown}</p>\n'


def test_task_lists_have_a_label_for_their_state() -> None:
    html = render("- [x] one\n- [ ] two")
    assert '<span class="task-done" role="img" aria-label="done"></span> one' in html
    assert '<span class="task-open" role="img" aria-label="to do"></span> two' in html


def test_code_is_coloured_by_classes_and_can_be_copied() -> None:
    html = render("```python\nx = '<b>'\n```")
    assert '<button type="button" class="wrap-code" aria-pressed="false">Wrap</button>' in html
    assert '<button type="button" class="copy-code">Copy</button>' in html
    assert "<span>python</span>" in html
    assert 'class="c-n">x</span>' in html
    assert "&lt;b&gt;" in html


@pytest.mark.parametrize("source", ["\tx = 1\n\n", "a\r\nb", "  lead", "trail  \n\n\n", "é 𝒳 \0"])
def test_highlighting_changes_no_character(source: str) -> None:
    shown = re.sub(r"<[^>]+>", "", highlighted(source, "python"))
    assert shown.replace("&#x27;", "'").replace("\r\n", "\n") == source.replace("\r\n", "\n")


def test_very_long_code_is_not_highlighted() -> None:
    assert highlighted("x = 1\n" * 10_000, "python").startswith("x = 1")
    assert highlighted("x" * 5_000, "python").startswith("xxx")
    assert highlighted("<b>", "no such language") == "&lt;b&gt;"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see https://a.example/x.", ["https://a.example/x"]),
        ("(https://a.example/x_(y)) and", ["https://a.example/x_(y)"]),
        ("(https://a.example/x)", ["https://a.example/x"]),
        ("https://a.example, https://b.example!", ["https://a.example", "https://b.example"]),
        ("README.md a@b.example www.x.example xhttps://no.example https:// http://.", []),
        ("HTTPS://A.example/?q=1&r=2#f", ["HTTPS://A.example/?q=1&r=2#f"]),
    ],
)
def test_addresses_in_running_text(text: str, found: list[str]) -> None:
    parts = list(pieces(text))
    assert [part for part, is_address in parts if is_address] == found
    assert "".join(part for part, _ in parts) == text


@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "![",
        "*a ",
        "<",
        "&",
        "`",
        "_",
        "> ",
        "[a](b",
        "http://a/(",
        "http://a.",
        "a\n",
        "- a\n",
        "|a",
        "\\",
        "&#x;",
        "~",
        "a**b",
        "\\(",
        "\\[\n",
        "$a",
        "$\\",
        "$$\n",
    ],
)
def test_rendering_time_is_bounded(unit: str) -> None:
    text = (unit * 20_000)[:20_000]
    half, whole = seconds_of(partial(render, text[:10_000])), seconds_of(partial(render, text))
    assert whole < 3 * half + 0.1  # quadratic ones take four times as long


def test_very_long_text_is_not_rendered() -> None:
    assert render("*<" * 110_000).startswith("<pre>*&lt;")


def test_a_stored_rendering_has_a_version() -> None:
    assert markdown.VERSION.startswith("<!--")


def test_the_stylesheet_of_code_is_up_to_date() -> None:
    stored = Path(__file__).parents[5] / "static" / "css" / "code.css"
    assert stored.read_text() == code_stylesheet.stylesheet()


@pytest.mark.parametrize("ground", [code_stylesheet.LIGHT_GROUND, code_stylesheet.DARK_GROUND])
def test_colours_are_adjusted_to_the_least_contrast(ground: str) -> None:
    assert code_stylesheet.contrast((255, 255, 255), (0, 0, 0)) == pytest.approx(21)
    for colour in ("808080", "ffff00", "000000", "ffffff", ground):
        moved = code_stylesheet.readable(colour, ground)
        rgb = tuple(int(moved[at : at + 2], 16) for at in (0, 2, 4))
        own = tuple(int(ground[at : at + 2], 16) for at in (0, 2, 4))
        assert code_stylesheet.contrast(rgb, own) >= 4.5
