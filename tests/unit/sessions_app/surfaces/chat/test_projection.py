"""The updates of the page for the events that a viewer sees."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.live_text import LiveTexts
from sessions_app.surfaces.chat.page_updates import (
    ChangeCall,
    DiscardText,
    PageUpdate,
    ShowAgent,
    ShowAnswer,
    ShowApproval,
    ShowBranch,
    ShowCall,
    ShowFiles,
    ShowQueue,
    ShowReasoning,
    ShowStatus,
    ShowText,
    ShowTurn,
    ShowWorkstream,
)
from sessions_app.surfaces.chat.projection import Projection
from sessions_app.surfaces.chat.turn_views import LONGEST_REASONING, Status

RUN, SESSION, CALL = uuid4(), uuid4(), uuid4()


def _seen(
    kind: str, step: int | None = None, cursor: str = "5.1-3", run: UUID | None = RUN, **payload: Any
) -> SessionEvent:
    return SessionEvent(kind, SESSION, run, step, payload, cursor)


def _delta(offset: int, text: str, step: int = 0, cursor: str = "5.1-3") -> SessionEvent:
    return _seen("text.delta", step, cursor, offset=offset, text=text)


def _requested(name: str = "echo", call: UUID = CALL) -> SessionEvent:
    return _seen("tool.requested", 0, execution_id=str(call), tool=name, arguments={"text": "a"}, text_length=0)


@pytest.fixture
def projection() -> Projection:
    return Projection(LiveTexts())


def _texts(acts: list[PageUpdate]) -> list[tuple[int, str, list[str]]]:
    shown = [act for act in acts if isinstance(act, ShowText)]
    return [(act.offset, act.text, [block.html for block in act.blocks]) for act in shown]


def test_text_of_one_batch_is_one_update(projection: Projection) -> None:
    acts = projection.updates([_delta(0, "one "), _delta(4, "two"), _delta(0, "later", step=1)])
    assert _texts(acts) == [(0, "one two", []), (0, "later", [])]


def test_written_files_are_shown_once_a_batch() -> None:
    ended = {"status": "Completed", "output": "{}", "error": "", "duration_ms": 5, "call_id": "c"}
    events = [_seen("tool.completed", 0, execution_id=str(uuid4()), tool="write_artifact", **ended) for _ in "ab"]
    assert Projection(LiveTexts()).updates(events)[-2:].count(ShowFiles()) == 1
    for name, how in (("echo", "completed"), ("write_artifact", "failed")):
        other = _seen(f"tool.{how}", 0, execution_id=str(uuid4()), tool=name, **{**ended, "status": how.title()})
        assert ShowFiles() not in Projection(LiveTexts()).updates([other])


def test_finished_blocks_take_the_place_of_their_text(projection: Projection) -> None:
    assert _texts(projection.updates([_delta(0, "one\n\ntw")])) == [(4, "\ntw", ['<p dir="auto">one</p>\n'])]
    assert _texts(projection.updates([_delta(7, "o")])) == [(7, "o", [])]
    assert _texts(projection.updates([_delta(8, "\n\n")])) == [(9, "\n", ['<p dir="auto">two</p>\n'])]


def test_a_second_viewer_gets_the_same_blocks_without_rendering_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = LiveTexts()
    Projection(texts).updates([_delta(0, "one\n\ntwo")])
    monkeypatch.setattr("sessions_app.surfaces.base.live_text.render", None)
    assert _texts(Projection(texts).updates([_delta(0, "one\n\n")])) == [(4, "\n", ['<p dir="auto">one</p>\n'])]


def test_a_viewer_is_not_sent_more_than_it_has_seen() -> None:
    texts = LiveTexts()
    Projection(texts).updates([_delta(0, "one\n\ntwo\n\nthree")])
    assert _texts(Projection(texts).updates([_delta(0, "on")])) == [(0, "on", [])]


def test_a_newer_claim_begins_the_text_again(projection: Projection) -> None:
    projection.updates([_delta(0, "old\n\n")])
    acts = projection.updates(
        [_seen("message.reset", 0, "5.2-1", reason="crash"), _delta(0, "new\n\n", cursor="5.2-2")]
    )
    assert acts[0] == DiscardText(RUN, 0, with_reasoning=True)
    assert _texts(acts) == [(4, "\n", ['<p dir="auto">new</p>\n'])]


def _page_text(acts: list[PageUpdate]) -> str:
    """Return the open text of the page after the updates."""
    text = ""
    for act in acts:
        if isinstance(act, DiscardText):
            text = ""
        if isinstance(act, ShowText):
            text += act.text[len(text) - act.offset :]
    return text


@pytest.mark.parametrize("kind", ["message.reset", "snapshot"])
def test_a_second_try_of_the_same_claim_shares_nothing_with_the_first(projection: Projection, kind: str) -> None:
    """Its pieces are not compared with those of another try, even if they agree at some offset."""
    acts = projection.updates([_delta(0, "Hello Alice!\n\nOld")])
    acts += projection.updates(
        [_seen(kind, 0, "5.1-4", text="", reason="retry"), _delta(0, "Hello "), _delta(6, "Bobbi")]
    )
    acts += projection.updates([_delta(11, "!")])
    assert _page_text(acts) == "Hello Bobbi!"
    assert _texts(projection.updates([_delta(12, "\n\n")])) == [(13, "\n", ['<p dir="auto">Hello Bobbi!</p>\n'])]


def test_a_viewer_of_another_text_has_a_text_of_its_own() -> None:
    texts = LiveTexts()
    Projection(texts).updates([_delta(0, "Hello Alice! More")])
    mine = Projection(texts)
    acts = mine.updates([_delta(0, "Hello "), _delta(6, "Bobbi"), _delta(11, "! M")])
    assert _page_text(acts) == "Hello Bobbi! M"


def test_a_snapshot_replaces_the_text(projection: Projection) -> None:
    projection.updates([_delta(0, "one")])
    acts = projection.updates([_seen("snapshot", 0, text="one\n\ntwo"), _delta(8, "!")])
    assert acts[0] == DiscardText(RUN, 0)
    assert _texts(acts) == [(4, "\ntwo", ['<p dir="auto">one</p>\n']), (8, "!", [])]


def test_text_after_a_gap_is_sent_as_it_is(projection: Projection) -> None:
    projection.updates([_delta(0, "one")])
    assert _texts(projection.updates([_delta(9, "far")])) == [(9, "far", [])]


def test_a_message_shows_its_turn_with_the_senders_id(projection: Projection) -> None:
    acts = projection.updates(
        [_seen("message.received", message_id="m-1", turn_id="t"), _seen("run.queued", ordinal=0)]
    )
    assert acts == [ShowTurn(RUN, "m-1")]


def test_a_message_added_to_a_run_updates_its_question(projection: Projection) -> None:
    projection.updates([_seen("message.received", message_id="m-1"), _seen("run.queued", ordinal=0)])
    assert projection.updates([_seen("message.received", message_id="m-2")]) == [ShowTurn(RUN, "m-2")]


def test_a_changed_text_updates_its_question(projection: Projection) -> None:
    assert projection.updates([replace(_seen("message.changed", turn_id="t"), seq=7)]) == [ShowTurn(RUN, seq=7)]


def test_a_retry_shows_a_turn_without_a_message(projection: Projection) -> None:
    assert projection.updates([_seen("run.queued", ordinal=3)]) == [ShowTurn(RUN)]


def test_a_call_is_shown_run_and_ended(projection: Projection) -> None:
    shown, status = projection.updates([_requested()])
    assert isinstance(shown, ShowCall) and shown.call.state.name == "waiting" and shown.call.brief == "a"
    assert status == ShowStatus(RUN, Status("Using echo…"))
    (running,) = projection.updates([_seen("tool.started", execution_id=str(CALL), tool="echo")])
    assert isinstance(running, ChangeCall) and running.state.name == "running" and running.result is None
    ended = {"execution_id": str(CALL), "tool": "echo", "status": "Completed", "output": '"a"', "duration_ms": 1200}
    done, status = projection.updates([_seen("tool.completed", 0, **ended)])
    assert isinstance(done, ChangeCall) and done.state.duration == "1.2 s" and done.result
    assert status == ShowStatus(RUN, Status("Thinking…"))


def test_calls_that_still_run_are_named(projection: Projection) -> None:
    projection.updates([_requested("echo"), _requested("date_time", uuid4())])
    acts = projection.updates(
        [_seen("tool.failed", 0, execution_id=str(CALL), status="Failed", error="no", duration_ms=None)]
    )
    assert acts[-1] == ShowStatus(RUN, Status("Using date_time…"))


def test_waiting_for_the_model_shows_the_time_of_the_retry(projection: Projection) -> None:
    until = "2026-01-02T03:04:05+00:00"
    (act,) = projection.updates(
        [_seen("run.waiting", waiting_on="retry", reason="The model answered 429.", until=until)]
    )
    assert isinstance(act, ShowStatus) and act.is_announced
    assert act.status.text == "The model answered 429. Trying again"
    assert act.status.until and act.status.until.isoformat() == until
    assert act.status.detail == ""


def test_the_queue_is_updated_once_a_batch_if_any_run_is_queued() -> None:
    behind = uuid4()
    batch = [
        _seen("message.completed", 0, turn_id="t", state="complete"),
        _seen("run.completed"),
        _seen("run.started", run=CALL),
    ]
    shown: list[PageUpdate] = [ShowAnswer(RUN), ShowStatus(CALL, Status("Thinking…"), is_announced=True)]
    assert Projection(LiveTexts(), [CALL, behind]).updates(batch) == [*shown, ShowQueue()]
    assert Projection(LiveTexts(), [CALL]).updates(batch[:1]) == [ShowAnswer(RUN), ShowQueue()]
    assert Projection(LiveTexts(), [CALL]).updates(batch) == [*shown, ShowQueue()]
    assert Projection(LiveTexts()).updates(batch) == shown


def test_a_selected_branch_is_shown_once_and_before_what_changes_its_turns(projection: Projection) -> None:
    batch = [
        _seen("branch.selected", run=None, branch=1, place=4, reason="edited"),
        _seen("run.queued", ordinal=5),
        _seen("branch.selected", run=None, branch=0, place=3, reason="selected"),
    ]
    assert projection.updates(batch) == [ShowBranch(3), ShowTurn(RUN)]


def test_another_agent_is_shown(projection: Projection) -> None:
    assert projection.updates([_seen("session.bound", run=None, agent_id="writer")]) == [ShowAgent("writer")]


@pytest.mark.parametrize("kind", ["session.created", "tool.progress", "run.completed", "something.new"])
def test_events_that_the_page_does_not_show_are_ignored(projection: Projection, kind: str) -> None:
    assert projection.updates([_seen(kind, 0, offset=0, text="x")]) == []


def _approval_event(status: str = "") -> SessionEvent:
    payload = {"approval_id": str(RUN), "execution_id": str(CALL), "tool": "echo"}
    if status:
        return _seen("approval.decided", 0, **payload, status=status)
    return _seen("approval.requested", 0, **payload)


def test_a_request_for_approval_is_shown_with_who_is_waited_for() -> None:
    shown, status = Projection(LiveTexts(), may_decide=True).updates([_approval_event()])
    assert isinstance(status, ShowStatus)
    assert (shown, status.status.text) == (ShowApproval(RUN, RUN), "Waiting for your decision")
    assert ShowStatus(RUN, Status("Waiting for an operator")) in Projection(LiveTexts()).updates([_approval_event()])


def test_a_denied_call_ends_as_denied_and_another_as_failed() -> None:
    failed: dict[str, Any] = {
        "execution_id": str(CALL),
        "tool": "echo",
        "status": "Failed",
        "error": "no",
        "duration_ms": None,
    }
    for status, name in (("denied", "denied"), ("expired", "denied"), ("approved", "failed")):
        acts = Projection(LiveTexts()).updates([_approval_event(status), _seen("tool.failed", 0, **failed)])
        assert [act.state.name for act in acts if isinstance(act, ChangeCall)] == [name]


def _drafts(acts: list[PageUpdate]) -> list[tuple[int, int, str]]:
    drafts = [act.draft for act in acts if isinstance(act, ShowText) and act.draft]
    return [(draft.start, draft.end, draft.html) for draft in drafts]


def test_the_open_block_is_sent_as_html_when_plain_text_does_not_do() -> None:
    projection, tip = Projection(LiveTexts()), '<span class="tip"></span>'
    assert _drafts(projection.updates([_delta(0, "a **b")])) == [
        (0, 5, f'<p dir="auto">a <strong>b{tip}</strong></p>\n')
    ]
    assert _drafts(projection.updates([_delta(5, "old")])) == []
    assert _drafts(projection.updates([_delta(8, "** c")])) == [
        (0, 12, f'<p dir="auto">a <strong>bold</strong> c{tip}</p>\n')
    ]


def test_no_viewer_is_sent_a_draft_of_text_that_it_has_not_seen() -> None:
    texts = LiveTexts()
    Projection(texts).updates([_delta(0, "a **bold** word")])
    late = Projection(texts)
    assert _drafts(late.updates([_delta(0, "a **bo")])) == []
    assert [end for _, end, _ in _drafts(late.updates([_delta(6, "ld** word")]))] == [15]


@pytest.mark.parametrize("closing", [_requested(), _seen("step.completed", 0, text_length=12)])
def test_the_text_before_a_call_is_shown_whole(closing: SessionEvent) -> None:
    projection = Projection(LiveTexts())
    projection.updates([_delta(0, "| a |\n|---|\n")])
    acts = projection.updates([closing])
    assert "<th>a</th>" in "".join(html for _, _, blocks in _texts(acts) for html in blocks)
    assert isinstance(acts[0], ShowText) and acts[0].draft is None


def test_reasoning_is_shown_apart_from_the_text_and_cut() -> None:
    projection = Projection(LiveTexts())
    shown = projection.updates([_seen("reasoning.delta", 0, offset=0, text="Hm."), _delta(0, "So.")])
    assert shown[0] == ShowReasoning(RUN, 0, 0, "Hm.")
    assert _texts(shown) == [(0, "So.", [])]
    assert projection.updates([_seen("reasoning.delta", 0, offset=LONGEST_REASONING - 1, text="abc")]) == [
        ShowReasoning(RUN, 0, LONGEST_REASONING - 1, "a")
    ]
    assert projection.updates([_seen("reasoning.delta", 0, offset=LONGEST_REASONING + 2, text="d")]) == []


CHILD = uuid4()


def _of_child(kind: str, step: int | None = None, **payload: Any) -> SessionEvent:
    return replace(_seen(kind, step, run=CHILD, **payload), parent_run_id=RUN, workstream="prices")


def test_a_workstream_is_shown_once_a_batch_with_its_text_and_calls(projection: Projection) -> None:
    started = [_of_child(kind) for kind in ("workstream.launched", "run.queued", "run.started")]
    text = _seen("text.delta", 0, run=CHILD, offset=0, text="Hm")
    card, shown = projection.updates([*started, text])
    assert card == ShowWorkstream(CHILD)
    assert isinstance(shown, ShowText) and (shown.run_id, shown.text) == (CHILD, "Hm")
    call = {"execution_id": str(CALL), "tool": "pay", "arguments": {"number": 1}, "text_length": 2}
    asks = {"execution_id": str(CALL), "tool": "pay", "approval_id": str(RUN)}
    acts = projection.updates([_of_child("tool.requested", 0, **call), _of_child("approval.requested", 0, **asks)])
    shown = next(act for act in acts if isinstance(act, ShowCall))
    assert (shown.run_id, shown.call.id, shown.call.asker) == (CHILD, CALL, "prices")
    assert ShowApproval(CHILD, RUN) in acts and acts.count(ShowWorkstream(CHILD)) == 1
    assert not any(isinstance(act, ShowStatus) for act in acts)


def test_the_question_and_the_end_of_a_workstream_show_its_card(projection: Projection) -> None:
    asked = [_of_child("run.waiting"), _of_child("input.requested", 0, execution_id=str(CALL))]
    assert projection.updates(asked) == [ShowWorkstream(CHILD, is_announced=True)]
    ends = [_of_child("workstream.ended"), _of_child("run.completed")]
    assert projection.updates(ends) == [ShowWorkstream(CHILD)]
