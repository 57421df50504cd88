"""Streamed Markdown is cut into blocks that no further text can change."""

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.surfaces.base.live_text import LiveText, LiveTexts
from sessions_app.surfaces.base.markdown import render
from sessions_app.surfaces.base.markdown_blocks import Block, BlockSplitter
from tests.support.cpu_cost import seconds_of
from tests.unit.sessions_app.surfaces.markdown_texts import markdown_texts


def _split(text: str, size: int) -> tuple[list[Block], BlockSplitter]:
    splitter = BlockSplitter()
    return [block for at in range(0, len(text), size) for block in splitter.feed(text[at : at + size])], splitter


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("just words", []),
        ("a paragraph\n", []),
        ("a paragraph\n\n", ["a paragraph\n"]),
        ("# heading\n", ["# heading\n"]),
        ("words\n#", []),  # may become `#tag`, which goes on with the paragraph
        ("words\n# heading\n", ["words\n", "# heading\n"]),
        ("words\n---\n", ["words\n---\n"]),
        ("- one\n\n- two\n", []),
        ("- one\n\nwords\n", ["- one\n\n"]),
        ("```\ncode\n\n", []),
        ("```\ncode\n```\n", ["```\ncode\n```\n"]),
        ("````\n```\n", []),
        ("```\ncode\n    ```\n", []),
        ("```\ncode\n   ```` \n", ["```\ncode\n   ```` \n"]),
        ("```\n", []),
        ("> quoted\n\n", []),
        ("a | b\n--|--\n1 | 2\n", []),
        ("a | b\n--|--\n1 | 2\n\n", ["a | b\n--|--\n1 | 2\n"]),
        ("***\n", ["***\n"]),
        ("a paragraph\r\n\r\n", ["a paragraph\r\n"]),
        ("[a]: https://example.org\n", []),
    ],
)
def test_finished_blocks(text: str, finished: list[str]) -> None:
    assert [block.source for block in _split(text, len(text))[0]] == finished


@given(markdown_texts(), st.integers(1, 40))
def test_cuts_do_not_depend_on_the_pieces(text: str, size: int) -> None:
    whole, _ = _split(text, max(len(text), 1))
    pieces, _ = _split(text, size)
    assert {block.end for block in pieces} <= {block.end for block in whole}


@given(markdown_texts(), st.integers(1, 40))
def test_blocks_rendered_one_by_one_look_like_the_whole(text: str, size: int) -> None:
    blocks, splitter = _split(text, size)
    env: dict[str, object] = {}
    rendered = "".join(render(block.source, env) for block in blocks) + render(text[splitter.done :], env)
    assert rendered == render(text)


@given(markdown_texts())
def test_blocks_and_rest_are_the_text(text: str) -> None:
    blocks, splitter = _split(text, 7)
    assert "".join(block.source for block in blocks) + text[splitter.done :] == text == splitter.text


@pytest.mark.whole
@pytest.mark.parametrize("line", ["- an item of a list\n", "words of a paragraph\n", "| a | table |\n", "> quoted\n"])
def test_long_open_blocks_cost_linear_time(line: str) -> None:
    def seconds(lines: int) -> float:
        # The least of three: a busy machine makes single measurements several times as long.
        return min(seconds_of(lambda: _split(line * lines, 20)) for _ in range(3))

    assert seconds(1200) < 12 * max(seconds(300), 0.01)  # 4 times the text; quadratic would be 16


def test_live_text_takes_overlapping_pieces_once() -> None:
    text = LiveText()
    assert text.feed(0, "one\n\ntwo")
    assert text.feed(3, "\n\ntwo and")
    assert text.feed(0, "one")
    assert text.text == "one\n\ntwo and"
    assert [(block.start, block.end, block.html) for block in text.blocks] == [(0, 4, '<p dir="auto">one</p>\n')]


def test_live_text_refuses_what_does_not_fit() -> None:
    text = LiveText()
    text.feed(0, "one")
    assert not text.feed(4, "gap")
    assert not text.feed(0, "other")
    assert text.text == "one"


def test_a_link_may_be_defined_in_an_earlier_block() -> None:
    text = LiveText()
    text.feed(0, "[a]: https://example.org\n\nwords\n\n[a] here\n\n")
    assert 'href="https://example.org"' in text.blocks[-1].html


def test_viewers_of_one_claim_share_a_text_and_old_ones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessions_app.surfaces.base.live_text._STEPS_KEPT", 2)
    run, texts = uuid4(), LiveTexts()
    first = texts.open(run, "1", 0)
    assert texts.open(run, "1", 0) is first
    assert texts.open(run, "2", 0) is not first
    texts.open(run, "3", 0)
    assert texts.open(run, "1", 0) is not first
