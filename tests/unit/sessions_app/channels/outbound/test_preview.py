"""The text of a run in a preview, and whether the run is writing at all."""

from typing import Any
from uuid import uuid4

from sessions_app.channels.outbound.preview import RunText
from sessions_app.live_view.cursor import SessionEvent

RUN, SESSION = uuid4(), uuid4()


def seen(kind: str, step: int | None = None, **payload: Any) -> SessionEvent:
    return SessionEvent(kind, SESSION, RUN, step, payload, "1")


def test_a_run_that_waits_for_an_approval_is_not_shown_as_writing() -> None:
    text = RunText(RUN)
    assert text.apply(seen("approval.requested", 0, approval_id="a")) and text.waits_for_person
    text.apply(seen("approval.requested", 0, approval_id="b"))
    text.apply(seen("approval.decided", 0, approval_id="a"))
    assert text.waits_for_person
    text.apply(seen("approval.decided", 0, approval_id="b"))
    assert not text.waits_for_person


def test_a_run_that_waits_for_an_answer_is_not_shown_as_writing() -> None:
    text = RunText(RUN)
    assert text.apply(seen("input.requested", 0, request_id="q", execution_id="x")) and text.waits_for_person
    text.apply(seen("tool.completed", 0, execution_id="other"))
    assert text.waits_for_person
    assert text.apply(seen("tool.completed", 0, execution_id="x")) and not text.waits_for_person
    text.apply(seen("input.requested", 1, request_id="r", execution_id="y"))
    text.apply(seen("tool.failed", 1, execution_id="y"))
    assert not text.waits_for_person


def test_the_text_of_steps_is_put_together() -> None:
    text = RunText(RUN)
    for event in (
        seen("text.delta", 0, offset=0, text="one"),
        seen("text.delta", 1, offset=0, text="tw"),
        seen("text.delta", 1, offset=2, text="o"),
    ):
        assert text.apply(event)
    assert text.text == "one\n\ntwo"
    assert not text.apply(SessionEvent("text.delta", SESSION, uuid4(), 0, {"offset": 0, "text": "other"}, "1"))
