"""The wire form of messages, and the conversions of clients between it and the long form."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.surfaces.agent_messages.wire_format import MAIN, AgentMessageType, create
from tests.support.agent_wire_format import UnknownFormat, normalise_type, parse, to_agent_message, to_compact

NOW = 1_700_000_000_000
CHUNK = int(AgentMessageType.STREAMING_CHUNK)

names = st.text(min_size=1, max_size=8)
details = st.dictionaries(names, st.none() | st.integers() | names, max_size=3)
stored_types = st.sampled_from(
    [int(kind) for kind in AgentMessageType if kind not in (CHUNK, AgentMessageType.RESTARTING)]
)


def compacts(types: st.SearchStrategy[int]) -> st.SearchStrategy[dict[str, Any]]:
    optional = {"m": names, "w": names.filter(lambda name: name != MAIN), "d": details, "ts": st.integers(1, 2**41)}
    return st.fixed_dictionaries({"t": types}, optional=optional)


@given(compacts(stored_types))
def test_a_stored_message_survives_both_ways(compact: dict[str, Any]) -> None:
    back = to_compact(to_agent_message(compact, "run", NOW))
    assert back == {"ts": NOW, **compact}


@given(compacts(stored_types), st.text(min_size=1, max_size=5))
def test_the_activity_of_the_wire_is_dropped_from_all_but_chunks(compact: dict[str, Any], activity: str) -> None:
    assert to_agent_message({**compact, "i": activity}, "run", NOW) == to_agent_message(compact, "run", NOW)


@given(compacts(st.just(CHUNK)), names, st.booleans())
def test_a_chunk_has_its_stream_its_activity_and_its_end(
    compact: dict[str, Any], activity: str, is_final: bool
) -> None:
    shown = to_agent_message({**compact, "i": activity, **({"f": 1} if is_final else {})}, "run", NOW)["details"]
    given_id = (compact.get("d") or {}).get("streaming_id")
    assert shown["streaming_id"] == (given_id if isinstance(given_id, str) else compact.get("w", MAIN))
    assert (shown["activity_id"], shown["is_final"]) == (activity, is_final)


@given(compacts(st.just(CHUNK)), names)
def test_a_chunk_in_the_long_form_loses_everything_but_its_end(compact: dict[str, Any], activity: str) -> None:
    long = to_agent_message({**compact, "i": activity, "f": 1}, "run", NOW)
    kept = {key: value for key, value in compact.items() if key != "d"}
    assert to_compact(long) == {"ts": NOW, **kept, "f": 1}


def test_a_chunk_without_i_takes_the_activity_of_its_details() -> None:
    assert to_agent_message({"t": CHUNK, "d": {"activity_id": "a"}}, "run", NOW)["details"]["activity_id"] == "a"
    assert "activity_id" not in to_agent_message({"t": CHUNK}, "run", NOW)["details"]


@pytest.mark.parametrize("ts", [None, 0])
def test_a_message_without_time_has_the_readers(ts: int | None) -> None:
    compact = {"t": 7} if ts is None else {"t": 7, "ts": ts}
    assert to_agent_message(compact, "run", NOW)["timestamp"] == NOW


def test_fields_that_are_not_on_the_wire_are_filled_in() -> None:
    assert to_agent_message({"t": 7, "d": None}, "run-1", NOW) == {
        "type": 7,
        "timestamp": NOW,
        "workflow_run_id": "run-1",
        "message": "",
        "workstream_id": MAIN,
    }


def test_empty_fields_are_not_sent() -> None:
    long = {"type": 7, "message": "", "timestamp": 0, "workstream_id": MAIN, "details": None}
    assert to_compact(long) == {"t": 7}
    assert to_compact({"type": 7, "details": {}}) == {"t": 7, "d": {}}  # an empty object is not omitted


@pytest.mark.parametrize(
    ("value", "expected"),
    [(kind, kind) for kind in range(14)]
    + [(name.lower(), int(kind)) for name, kind in AgentMessageType.__members__.items() if kind != 14]
    + [(value, 3) for value in (14, 99, -1, "restarting", "7", "ANSWER", "", None, True, [], {})]
    + [(7.0, 7), (7.5, 3)],
)
def test_types_are_read_as_clients_read_them(value: Any, expected: int) -> None:
    assert normalise_type(value) == expected


@pytest.mark.parametrize("kind", [14, 99, 3.5])
def test_the_type_of_a_wire_message_is_taken_as_it_is(kind: float) -> None:
    assert parse({"t": kind, "odd": True}) == {"t": kind, "odd": True}


def test_either_form_is_read_from_text_or_as_a_value() -> None:
    assert parse('{"type": "answer", "message": "hi"}') == parse({"t": 7, "m": "hi"})
    assert parse(json.dumps({"t": 7, "type": "error"}))["t"] == 7


@pytest.mark.parametrize("data", [[], {}, "[]", '"text"', "7", None, {"kind": 7}])
def test_anything_else_is_an_unknown_format(data: Any) -> None:
    with pytest.raises(UnknownFormat, match="Unknown message format"):
        parse(data)


def test_text_that_is_no_json_is_a_value_error() -> None:
    with pytest.raises(json.JSONDecodeError):
        parse("{")


@given(st.integers(0, 14), st.text(max_size=3), st.sampled_from(["", MAIN, "child"]), st.integers(0, 9))
def test_a_new_message_has_no_empty_fields(kind: int, text: str, workstream: str, ts: int) -> None:
    made = create(kind, message=text, workstream=workstream, timestamp=ts)
    fields = {"t": kind, "m": text, "w": workstream if workstream != MAIN else "", "ts": ts}
    assert made == {key: value for key, value in fields.items() if value or key == "t"}
    assert "i" not in made
