"""Cursors, and the joining of pieces of text."""

from uuid import UUID

import pytest

from audit_app.kernel.errors import InvalidInput
from sessions_app.live_view.cursor import Cursor, SessionEvent, join_pieces

SESSION, RUN = UUID(int=1), UUID(int=2)


def piece(offset: int, text: str, *, step: int = 0, kind: str = "text.delta", cursor: str = "1.1-1") -> SessionEvent:
    return SessionEvent(kind, SESSION, RUN, step, {"offset": offset, "text": text}, cursor)


@pytest.mark.parametrize(
    ("text", "cursor"),
    [
        ("", Cursor(0, (0, 0))),
        ("0", Cursor(0, None)),
        ("12", Cursor(12, None)),
        ("12.3-45", Cursor(12, (3, 45))),
        ("12.3-45-2", Cursor(12, (3, 45), 2)),
    ],
)
def test_cursors_are_parsed(text, cursor):
    assert Cursor.parse(text) == cursor


@pytest.mark.parametrize(
    "text", ["x", "-1", "1.", "1.2", "1.2-", "1.2-3\n", "٣", " 1", "1" * 19, "1.2-3.4", "1.2-3-4-5"]
)
def test_other_texts_are_refused(text):
    with pytest.raises(InvalidInput):
        Cursor.parse(text)


def test_pieces_that_follow_each_other_become_one():
    assert join_pieces([piece(0, "a"), piece(1, "é🙂"), piece(3, "b", cursor="1.1-9")]) == [
        piece(0, "aé🙂b", cursor="1.1-9")
    ]


@pytest.mark.parametrize("second", [piece(5, "b"), piece(1, "b", step=1), piece(1, "b", kind="reasoning.delta")])
def test_other_pieces_stay_apart(second):
    assert join_pieces([piece(0, "a"), second]) == [piece(0, "a"), second]


def test_an_event_between_two_pieces_keeps_them_apart():
    between = SessionEvent("run.waiting", SESSION, RUN, None, {}, "2.1-1", 2, 2)
    assert join_pieces([piece(0, "a"), between, piece(1, "b")]) == [piece(0, "a"), between, piece(1, "b")]
