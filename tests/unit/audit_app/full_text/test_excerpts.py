"""Excerpts around the words that a query has found."""

import pytest

from audit_app.full_text.excerpts import around, plain
from audit_app.full_text.query import parse

LONG = f"{'Before it. ' * 20}The heron stands in the reeds. {'After it. ' * 20}"


def marked(text: str, query: str) -> list[str]:
    return [piece.text for piece in around(text, parse(query)) if piece.is_match]


def test_an_excerpt_begins_shortly_before_the_first_match_and_marks_all() -> None:
    text = plain(around(LONG, parse("reeds heron")))
    assert text.startswith("…") and text.endswith("…") and len(text) < 120
    assert marked(LONG, "reeds heron") == ["heron", "reeds"]


@pytest.mark.parametrize("text", ["", "Nothing of it"])
def test_a_text_without_a_match_is_shown_from_its_beginning(text: str) -> None:
    assert plain(around(text, parse("heron"))) == text


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("Is (A.B) here?", "(a.b)", ["A.B"]),
        ("Die Größe der Straße", "STRASSE grosse", ["Größe", "Straße"]),
        ("我在東京都工作", "東京", ["東京"]),
        ("It said: do not go", '"do not"', ["do not"]),
        ("Herons and heron", "hero", ["Herons", "heron"]),
        ("heron and stork", "heron -stork", ["heron"]),
    ],
)
def test_what_was_searched_is_marked_as_the_text_spells_it(text: str, query: str, expected: list[str]) -> None:
    assert marked(text, query) == expected
