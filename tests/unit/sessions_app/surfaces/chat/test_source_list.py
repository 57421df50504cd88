"""Citations on the page: numbers in the text, and a list of sources with honest links."""

from uuid import UUID, uuid5

import pytest
from django.template.loader import render_to_string
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.conversation.citations import Citation, numbered
from sessions_app.surfaces.base import markdown
from sessions_app.surfaces.base.live_text import LiveText
from sessions_app.surfaces.chat.source_list import shown_sources
from sessions_app.surfaces.chat.turn_views import TurnView

A, B = uuid5(UUID(int=0), "a"), uuid5(UUID(int=0), "b")
NAMES = {A: "1"}


def citation(uri: str, title: str = "A page", quote: str = "", number: int = 1) -> Citation:
    return Citation(A, number, uri, title, quote, 0, 38)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (f"Red [{A}].", '<p dir="auto">Red <span class="cited">[1]</span>.</p>'),
        (f"- **x [{A}]**", '<strong>x <span class="cited">[1]</span></strong>'),
        (f"[{A}, {B}]", f'<span class="cited">[1, {B}]</span>'),
        (f"[{A}, {A}]", '<span class="cited">[1]</span>'),
        (f"[{B}]", f'<p dir="auto">[{B}]</p>'),
        (f"`[{A}]`", f"<code>[{A}]</code>"),
        (f"[{A}] and https://x.example/", '<span class="cited">[1]</span> and <a href="https://x.example/"'),
    ],
)
def test_markers_of_known_sources_become_numbers_outside_of_code(text: str, html: str) -> None:
    assert html in markdown.render(text, {"cited": NAMES.get})


def test_a_marker_is_a_placeholder_while_the_text_streams() -> None:
    live = LiveText()
    live.feed(0, f"Red [{A}].\n\n")
    assert '<span class="cited">[…]</span>' in live.blocks[0].html


@pytest.mark.parametrize(
    ("uri", "host"),
    [
        ("https://shop.example/a?b=c", "shop.example"),
        ("http://shop.example:8080/", "shop.example"),
        ("https://аpple.com/", "xn--pple-43d.com"),
        ("javascript:alert(1)", ""),
        ("data:text/html,x", ""),
        ("//shop.example/", ""),
        ("https://bank.example@evil.example/", ""),
        ("https://bank.example\\@evil.example/", ""),
        ("https://evil\u202e.example/", ""),
        ("java\nscript:alert(1)", ""),
        ("http://[", ""),
    ],
)
def test_only_plain_web_addresses_are_links(uri: str, host: str) -> None:
    (shown,) = shown_sources([citation(uri)])
    assert (shown.host, shown.href) == (host, uri if host else "")


def test_files_and_memories_have_a_kind() -> None:
    uris = ["memory:car", "artifact:out/a.md", f"attachment:{A}", "isbn:1"]
    shown = shown_sources(citation(uri, number=number) for number, uri in enumerate(uris, start=1))
    assert [one.kind for one in shown] == ["memory", "file", "attached file", ""]


@given(st.text(), st.text(), st.text())
def test_untrusted_text_never_becomes_markup(uri: str, title: str, quote: str) -> None:
    def list_of(cited: Citation) -> str:
        return render_to_string("chat/_sources.html", {"turn": TurnView(None, 0, citations=(cited,))})

    html = list_of(citation(f"<{uri}", f"<{title}", f'"><{quote}'))
    assert html.count("<") == html.count(">") == list_of(citation("x", "x", "x")).count("<")


def test_a_source_is_numbered_once_in_a_marker_and_its_quote_is_plain_text() -> None:
    cited = citation("https://a.example/", quote="# How it **works**\n\n[Second](https://b.example/x)")
    assert numbered(f"Red [{A}, {A}].", [cited]) == "Red [1]."
    assert shown_sources([cited])[0].quote == "How it works Second"
