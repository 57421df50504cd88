"""Replies of Valkey are decoded to items; foreign entries are skipped."""

from uuid import UUID

import pytest

from audit_app.follow.items import Hint, LiveEntry, PassingEvent, parse_entry, parse_hint

RUN, SESSION = UUID(int=1), UUID(int=2)


def test_an_entry_has_its_position_and_payload():
    entry = parse_entry(RUN, b"3-17", {b"e": '{"type":"text.delta","step":2,"offset":4,"text":"é"}'.encode()})
    assert entry == LiveEntry(RUN, (3, 17), "text.delta", 2, {"offset": 4, "text": "é"})


@pytest.mark.parametrize("raw", [{}, {b"e": b"{"}, {b"e": b"[]"}, {b"e": b"{}"}, {b"x": b"1"}])
def test_an_entry_that_cannot_be_decoded_is_none(raw):
    assert parse_entry(RUN, b"1-1", raw) is None


def test_a_hint_has_the_last_seq_of_a_timeline():
    assert parse_hint({b"s": str(SESSION).encode(), b"q": b"12"}) == Hint(SESSION, 12, None)


def test_a_hint_may_hold_a_passing_event():
    raw = {
        b"s": str(SESSION).encode(),
        b"e": b'{"type":"tool.started","run_id":"%s","tool":"echo"}' % str(RUN).encode(),
    }
    assert parse_hint(raw) == Hint(SESSION, 0, PassingEvent("tool.started", RUN, {"tool": "echo"}))


@pytest.mark.parametrize("raw", [{}, {b"s": b"?"}, {b"s": str(SESSION).encode()}, {b"s": b"\xff", b"q": b"1"}])
def test_a_hint_that_cannot_be_decoded_is_none(raw):
    assert parse_hint(raw) is None
