"""Ids of sources: equal for equal passages, and read back only from stamped results."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_app.executions import result_sources

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
LISTED = st.fixed_dictionaries(
    {
        "sources": JSON
        | st.lists(
            JSON | st.dictionaries(st.sampled_from(["uri", "title", "quote", "offset", "cite"]), JSON, max_size=5)
        )
    }
)
PASSAGE = {"uri": "https://a.example/x", "title": "Shop", "quote": "It costs 3.", "offset": 7}


def test_the_same_passage_has_the_same_id_and_another_one_another() -> None:
    def id_of(**changes: object) -> str:
        return result_sources.stamped({"sources": [{**PASSAGE, **changes}]})["sources"][0]["cite"]

    assert id_of() == id_of(title="Renamed") == str(UUID(id_of()))
    assert len({id_of(), id_of(uri="https://b.example"), id_of(quote="It costs 4."), id_of(offset=8)}) == 4


def test_what_was_stamped_is_read_back() -> None:
    output = json.dumps(result_sources.stamped({"text": "x", "sources": [PASSAGE, {"uri": "memory:car"}]}))
    page, memory = result_sources.read(output)
    assert (page.uri, page.title, page.quote, page.offset) == tuple(PASSAGE.values())
    assert (memory.title, memory.quote, memory.offset) == ("memory:car", "", None)


def test_ids_of_a_tools_own_making_count_for_nothing() -> None:
    forged = {**PASSAGE, "cite": "00000000-0000-4000-8000-000000000000"}
    assert result_sources.stamped({"sources": [forged]}) == result_sources.stamped({"sources": [PASSAGE]})


@pytest.mark.parametrize("output", [None, "", "no json", "[]", '"sources"', '{"sources": {}}', '{"sources": [1]}'])
def test_a_result_without_sources_has_none(output: str | None) -> None:
    assert result_sources.read(output) == ()


@given(LISTED | JSON)
def test_any_value_is_stamped_and_read_without_harm(value: object) -> None:
    stamped = result_sources.stamped(value)
    assert result_sources.stamped(stamped) == stamped
    for source in result_sources.read(json.dumps(stamped)):
        assert 0 < len(source.uri) <= result_sources.MAX_URI and len(source.quote) <= result_sources.MAX_QUOTE
    if isinstance(value, dict):
        assert {**stamped, "sources": None} == {**value, "sources": None}
        assert len(stamped["sources"]) == len(value["sources"]) if isinstance(value.get("sources"), list) else True
