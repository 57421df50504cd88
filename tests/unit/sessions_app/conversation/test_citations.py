"""Markers in an answer: known ones become citations at their offsets, everything else stays text."""

from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.conversation.citations import (
    MARKER,
    Citation,
    for_people,
    joined,
    listed,
    marked,
    mentioned,
    numbered,
    resolve,
    unnumbered,
)
from tools_app.executions.result_sources import Source

IDS = [uuid5(UUID(int=0), str(number)) for number in range(5)]
KNOWN = {
    one: Source(one, f"https://s{number}.example/", f"Page {number}", "quote", number)
    for number, one in enumerate(IDS[:3])
}
A, B, C, UNKNOWN = (str(one) for one in IDS[:4])

MARKERS = st.lists(st.sampled_from(IDS), min_size=1, max_size=3).map(lambda ids: f"[{', '.join(map(str, ids))}]")
TEXTS = st.lists(st.text(max_size=8) | MARKERS | st.sampled_from(["[", "]", f"[{A}", f"{B}]", f"[{A};{B}]"])).map(
    "".join
)


def test_a_marker_becomes_a_citation_of_what_it_names() -> None:
    text = f"It costs 3 [{A}]."
    ((citation,),) = resolve([text], KNOWN)
    assert citation == Citation(IDS[0], 1, "https://s0.example/", "Page 0", "quote", 11, 38, 0)
    assert text[citation.offset : citation.end] == f"[{A}]" and numbered(text, [citation]) == "It costs 3 [1]."


def test_sources_are_numbered_by_first_mention_across_the_texts_of_a_run() -> None:
    first, second = resolve([f"x [{B}] [{A}, {B}]", f"[{C}][{A.upper()}]"], KNOWN)
    assert [one.number for one in first] == [1, 2, 1] and [one.number for one in second] == [3, 2]
    assert [one.title for one in listed([*first, *second])] == ["Page 1", "Page 0", "Page 2"]


def test_an_unknown_id_stays_text_alone_and_beside_known_ones() -> None:
    text = f"[{UNKNOWN}] [{A}, {UNKNOWN}]"
    (found,) = resolve([text], KNOWN)
    assert [one.id for one in found] == [IDS[0]]
    assert numbered(text, found) == f"[{UNKNOWN}] [1, {UNKNOWN}]"


@pytest.mark.parametrize(
    "text", [A, f"({A})", f"[{A[:-1]}]", f"[{A} {B}]", f"[x{A}]", f"[{A},]", f"[\n{A}]", "[1]", "[]"]
)
def test_what_is_no_marker_is_none(text: str) -> None:
    assert resolve([text], KNOWN) == [()] and mentioned([text]) == ()


def test_people_get_numbers_and_a_list_of_plain_titles() -> None:
    odd = Source(IDS[0], "https://s.example/", "*Free* [click](http://evil.example)\nnow", "", None)
    texts = [f" see [{A}] ", f"and [{A}]"]
    text = for_people(zip(texts, resolve(texts, {odd.id: odd}), strict=True))
    assert text == (
        "see [1]\n\nand [1]\n\n"
        r"[1] \*Free\* \[click\]\(http://evil.example\) now: https://s.example/"
    )
    assert for_people([(" only text ", ())]) == "only text"


def test_while_a_text_is_written_its_markers_are_signs() -> None:
    assert unnumbered(f"Red [{A}, {UNKNOWN}] and [1] [{A}") == f"Red […] and [1] [{A}"


@given(TEXTS)
def test_citations_stand_where_they_say_and_nothing_else_changes(text: str) -> None:
    (found,) = resolve([text], KNOWN)
    spans = {(one.offset, one.end) for one in found}
    assert all(MARKER.fullmatch(text[start:end]) for start, end in spans)
    assert {one.id for one in found} == set(mentioned([text])) & set(KNOWN)
    assert [one.offset for one in found] == sorted(one.offset for one in found)
    assert "".join(piece for piece, _ in marked(text)) == text
    if not found:
        assert numbered(text, found) == text


@given(TEXTS)
def test_only_markers_of_unknown_ids_are_left_when_numbered(text: str) -> None:
    (found,) = resolve([text], KNOWN)
    assert resolve([numbered(text, found)], dict.fromkeys(KNOWN, KNOWN[IDS[0]]))[0] == ()


@given(st.lists(TEXTS, max_size=4))
def test_joined_texts_keep_their_citations_at_their_markers(texts: list[str]) -> None:
    found = resolve(texts, KNOWN)
    whole, moved = joined(zip(texts, found, strict=True))
    assert whole == "\n\n".join(text.strip() for text in texts if text.strip())
    kept = [one for citations in found for one in citations]
    before = [text[one.offset : one.end] for text, ones in zip(texts, found, strict=True) for one in ones]
    assert [whole[one.offset : one.end] for one in moved] == before
    assert [one.number for one in moved] == [one.number for one in kept]


@given(TEXTS)
def test_a_citation_survives_being_stored(text: str) -> None:
    (found,) = resolve([text], KNOWN)
    assert [Citation.from_dict(one.to_dict()) for one in found] == list(found)
