"""Live text as chunks: a client that resumes at any position gets the text once, whole."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.agent_messages import resume_timestamps
from sessions_app.surfaces.agent_messages.streaming_chunks import LiveText, activity_of
from sessions_app.surfaces.agent_messages.wire_format import Compact

RUN, SESSION = UUID(int=7), UUID(int=8)
AT = 1_795_253_425_107


def delta(offset: int, text: str, fence: int = 1) -> SessionEvent:
    return SessionEvent("text.delta", SESSION, RUN, 0, {"offset": offset, "text": text}, f"4.{fence}-{offset + 2}")


def snapshot(text: str, fence: int = 1) -> SessionEvent:
    return SessionEvent("snapshot", SESSION, RUN, 0, {"text": text}, f"4.{fence}-9")


def reset(fence: int) -> SessionEvent:
    return SessionEvent("message.reset", SESSION, RUN, 0, {"reason": "resumed"}, f"4.{fence}-1")


CLOSES = SessionEvent("message.completed", SESSION, RUN, 0, {}, "5.1-0", 5, AT + 900)


class Client:
    """Concatenates chunks as the protocol's clients do, and stores the highest `ts`."""

    def __init__(self) -> None:
        self.text, self.ts = "", 0.0

    def take(self, messages: list[Compact]) -> "Client":
        for message in messages:
            self.ts = max(self.ts, message["ts"])
            if message["t"] == 12 and message["i"] == activity_of(RUN, 0):
                self.text += message.get("m", "")
            elif message["t"] == 1 and message["d"]["activity_id"] == activity_of(RUN, 0):
                self.text = ""
        return self


def in_pieces(text: str, sizes: list[int], fence: int = 1) -> list[SessionEvent]:
    pieces, at = [], 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(delta(at, text[at : at + size], fence))
        at += size
    return pieces


ALPHABET = "".join(map(chr, range(97, 123)))
lengths = st.integers(1, 3000) | st.integers(3000, 45_000)
sizes = st.lists(st.integers(10, 700), min_size=1, max_size=5)
quickly = settings(max_examples=40, deadline=None)


def text_of(length: int) -> str:
    return (ALPHABET * (length // 26 + 1))[:length]


@quickly
@given(lengths, sizes, st.data())
def test_a_client_that_resumes_has_the_text_once(length: int, sizes: list[int], data: st.DataObject) -> None:
    text = text_of(length)
    pieces = in_pieces(text, sizes)
    cut = data.draw(st.integers(0, len(pieces)))
    live, client = LiveText(), Client()
    for piece in pieces[:cut]:
        client.take(live.chunks(piece, AT))
    assert text.startswith(client.text)
    whole, received = resume_timestamps.read(client.ts or AT)
    assert whole == AT
    again = LiveText(received, has_resumed=True)
    sent = "".join(piece.payload["text"] for piece in pieces[:cut])
    events = ([snapshot(sent)] if sent else []) + pieces[cut:]
    for event in events:
        client.take(again.chunks(event, AT))
    client.take(again.close(CLOSES, AT))
    assert client.text == text
    assert client.ts < AT + 1 - resume_timestamps.MOST_BEFORE / resume_timestamps.STEPS


@quickly
@given(lengths, lengths, sizes)
def test_text_of_an_earlier_claim_is_dropped_on_resume(before: int, after: int, sizes: list[int]) -> None:
    first, second = text_of(before).upper(), text_of(after)
    live, client = LiveText(), Client()
    for piece in in_pieces(first, sizes, fence=1):
        client.take(live.chunks(piece, AT))
    again = LiveText(resume_timestamps.read(client.ts)[1], has_resumed=True)
    client.take(again.chunks(snapshot(second, fence=2), AT)).take(again.close(CLOSES, AT))
    assert client.text == second


def test_transient_messages_have_distinct_times_before_the_next_event() -> None:
    times = [resume_timestamps.of_transient(1_800_000_000_000, count) for count in range(100)]
    assert times == sorted(times) and len(set(times[:16])) == 16
    assert {resume_timestamps.read(ts) for ts in times} == {(1_800_000_000_000, None)}, (
        "a client that resumes from it has no text"
    )


def test_a_step_that_starts_again_is_sent_again() -> None:
    live, client = LiveText(), Client()
    client.take(live.chunks(delta(0, "Half an ans"), AT))
    messages = live.chunks(reset(2), AT)
    assert [message["d"]["event_class"] for message in messages] == ["stream_reset"]
    client.take(messages).take(live.chunks(delta(0, "A whole answer.", 2), AT))
    assert client.text == "A whole answer."


def test_the_last_chunk_is_final_and_has_the_rest_of_the_text() -> None:
    live = LiveText()
    sent = live.chunks(delta(0, "x" * 5200), AT)
    (last,) = live.close(CLOSES, AT)
    assert last["f"] == 1 and len(sent[0]["m"]) + len(last["m"]) == 5200
    assert live.close(CLOSES, AT) == []


def test_reasoning_has_its_own_activity_and_is_sent_again_on_resume() -> None:
    thought = SessionEvent("reasoning.delta", SESSION, RUN, 0, {"offset": 0, "text": "Hm."}, "4.1-2")
    (chunk,) = LiveText().chunks(thought, AT)
    assert (chunk["m"], chunk["i"]) == ("Hm.", f"{activity_of(RUN, 0)}.reasoning")
    kinds = [message["t"] for message in LiveText(has_resumed=True).chunks(thought, AT)]
    assert kinds == [1, 12]


CHILD = UUID(int=9)


def of_child(offset: int, text: str) -> SessionEvent:
    return replace(delta(offset, text), run_id=CHILD)


def test_chunks_of_a_workstream_keep_the_position_of_the_main_agent() -> None:
    live, client = LiveText(), Client()
    (first,) = live.chunks(of_child(0, "Below"), AT, "a")
    assert (first["w"], first["ts"], first["i"]) == ("a", AT, activity_of(CHILD, 0))
    client.take([first]).take(live.chunks(delta(0, "Main text"), AT))
    client.take(later := live.chunks(of_child(5, "x" * 5200), AT, "a"))
    assert [one["ts"] for one in later] == [client.ts] and len(later[0]["m"]) == 5200
    again = LiveText(resume_timestamps.read(client.ts)[1], has_resumed=True, has_children=True)
    resumed = again.chunks(of_child(0, "Below"), AT, "a")
    assert [one["t"] for one in resumed] == [1, 1, 12] and {one["ts"] for one in resumed} == {client.ts}
    assert client.take(resumed).take(again.chunks(delta(0, "Main text goes on"), AT)).text == "Main text goes on"


def test_a_client_that_resumes_from_an_event_of_a_workstream_gets_the_text_once() -> None:
    client = Client().take(LiveText().chunks(delta(0, "Main "), AT))
    again = LiveText(None, has_resumed=True, has_children=True)
    assert client.take(again.chunks(delta(0, "Main text"), AT + 5)).text == "Main text"


@pytest.mark.parametrize(("activity", "kind"), [(activity_of(CHILD, 0), 12), ("another", 1)])
def test_the_end_of_a_workstream_ends_its_text_or_drops_what_is_not_stored(activity: str, kind: int) -> None:
    live = LiveText()
    live.chunks(of_child(0, "Half"), AT, "a")
    end = replace(CLOSES, run_id=CHILD, parent_run_id=RUN)
    (last,) = live.end(end, AT, [{"t": 7, "d": {"activity_id": activity}}])
    assert (last["t"], last["w"]) == (kind, "a") and live.end(end, AT, []) == []


@given(st.integers(0, 60_000))
def test_positions_are_below_the_text_and_close_to_it(length: int) -> None:
    position = resume_timestamps.position_of(length)
    if resume_timestamps.is_exact(position):
        assert 0 <= length - resume_timestamps.length_at(position) < 64
        assert length > 1023 or resume_timestamps.length_at(position) == length
    else:
        assert length > resume_timestamps.LONGEST


@given(st.integers(1, 2039), st.integers(0, 9), st.integers(10**12, 2**41 - 2))
def test_a_received_text_is_read_as_it_was_written(position: int, fence: int, ts: int) -> None:
    encoded = resume_timestamps.of_text(ts, fence, position)
    whole, received = resume_timestamps.read(float(repr(encoded)))
    assert whole == ts and received is not None and received.claim == fence & 1
    assert received.length == (resume_timestamps.length_at(position) if resume_timestamps.is_exact(position) else None)


@given(st.integers(10**12, 2**41 - 2), st.integers(1, 15))
def test_messages_before_an_event_lie_between_two_events(ts: int, count: int) -> None:
    times = [resume_timestamps.before(ts, count, index) for index in range(count)]
    assert ts - 1 < times[0] and times == sorted(set(times)) and times[-1] < ts
    assert resume_timestamps.of_text(ts - 1, 1, 2039) < times[0]
    assert all(resume_timestamps.read(time) == (ts - 1, None) for time in times)
