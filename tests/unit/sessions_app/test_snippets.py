"""Excerpts around searched words."""

import pytest

from sessions_app.conversation.snippets import around, words_of

LONG = f"{'Before it. ' * 20}The heron stands in the reeds. {'After it. ' * 20}"


def test_an_excerpt_begins_shortly_before_the_first_match_and_marks_all() -> None:
    pieces = around(LONG, ["reeds", "heron"])
    text = "".join(piece.text for piece in pieces)
    assert text.startswith("…") and text.endswith("…") and len(text) < 120
    assert [piece.text for piece in pieces if piece.is_match] == ["heron", "reeds"]


@pytest.mark.parametrize("text", ["", "Nothing of it"])
def test_a_text_without_a_match_is_shown_from_its_beginning(text: str) -> None:
    assert "".join(piece.text for piece in around(text, ["heron"])) == text


def test_words_are_taken_literally_and_in_any_case() -> None:
    assert [piece.text for piece in around("Is (A.B) here?", ["(a.b)"]) if piece.is_match] == ["(A.B)"]


def test_a_query_has_a_limited_number_of_different_words() -> None:
    assert words_of("  heron Heron\0reeds ") == ("heron", "reeds")
    assert len(words_of(" ".join(map(str, range(50))))) == 8
