"""Words of texts and queries of the full-text search."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit_app.full_text.query import MOST_TERMS, Query, Term, _is_at, find_matches, like, parse
from audit_app.full_text.words import indexed_words, words

German = "Die Straßenbahn fährt über die Brücke."


def has_all(text: str, query: Query) -> bool:
    """Return whether the text matches the query, as the index does."""
    names = indexed_words(text)
    has = [any(_is_at(term, names, at) for at in range(len(names))) for term in query.wanted]
    lacks = not any(_is_at(term, names, at) for term in query.excluded for at in range(len(names)))
    return bool(has) and (any(has) if query.matches_any else all(has)) and lacks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Élan ＡＢＣ, straße!", ["elan", "abc", "strasse"]),
        ("Mu\u0308ller", ["muller"]),  # an accent of its own
        ("memory_store(key='a-b')", ["memory", "store", "key", "a", "b"]),
        ("東京 タワー", ["東", "京", "タ", "ワ", "ー"]),
        ("한국어 검색", ["한국어", "검색"]),
        ("½ 3.14", ["1", "2", "3", "14"]),
        ("x" * 100, ["x" * 64]),
        ("\0 ?!", []),
    ],
)
def test_words_ignore_case_width_and_accents(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_names_of_programs_are_found_by_their_parts() -> None:
    assert indexed_words("call sendHTTPMessage now") == ["call", "sendhttpmessage", "now", "send", "http", "message"]


@pytest.mark.parametrize(
    ("query", "text", "matches"),
    [
        ("brucke strassen", German, True),
        ("bahn", German, False),  # words are found by their beginning
        ('"über die"', German, True),
        ('"die über"', German, False),
        ("fahrt -brücke", German, False),
        ("fahrt -tunnel", German, True),
        ("-tunnel", German, False),  # nothing is wanted
        ("memory_store", "It calls memory_store.", True),
        ("store", "It calls memory_store.", True),
        ("message", "It calls sendMessage.", True),
        ("e-mail", "An e-mail came", True),
        ("e-mail", "mail e", False),
        ("東京", "我在東京", True),
        ("京東", "我在東京", False),
        ("in", "index", False),  # two letters are a whole word
    ],
)
def test_a_query_matches(query: str, text: str, matches: bool) -> None:
    assert has_all(text, parse(query)) is matches


def test_a_query_has_words_phrases_and_exclusions() -> None:
    expected = (Term(("heron",), True), Term(("the", "reeds")), Term(("stork",), is_excluded=True))
    assert parse('heron "the reeds" -stork').terms == expected
    assert parse('"not closed').terms == (Term(("not", "closed")),)
    assert len(parse(" ".join(map(str, range(50)))).terms) == MOST_TERMS


@settings(max_examples=30)
@given(st.text(max_size=60))
def test_nothing_typed_is_an_error(text: str) -> None:
    assert all(word.isalnum() for term in parse(text).terms for word in term.words)
    for start, end in find_matches(text, parse(text)):
        assert 0 <= start < end <= len(text)


def test_a_message_is_like_texts_with_one_of_its_words() -> None:
    wanted = like("What did I say about cooking?")
    assert has_all("They cook well.", wanted) and not has_all("A cat", wanted)
