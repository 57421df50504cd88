"""The updates of a task: text that grows and is replaced, files and states once, workstreams left out."""

from typing import Any
from uuid import UUID

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.a2a.projection import TaskUpdates
from sessions_app.surfaces.a2a.responses import answer_artifact

TASK, CHILD, SESSION = UUID(int=1), UUID(int=2), UUID(int=3)
WORKING = {"status": {"state": "TASK_STATE_WORKING"}, "artifacts": []}


def event(kind: str, step: int | None = 0, run: UUID = TASK, seq: int | None = None, **payload: Any) -> SessionEvent:
    return SessionEvent(kind, SESSION, run, step, payload, "", seq)


def delta(text: str, offset: int = 0, step: int = 0, run: UUID = TASK) -> SessionEvent:
    return event("text.delta", step, run, text=text, offset=offset)


def changes(updates: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    found = [update["artifactUpdate"] for update in updates]
    return [(each["artifact"]["parts"][0]["text"], each["append"]) for each in found]


def test_text_grows_and_the_next_step_replaces_it() -> None:
    updates = TaskUpdates(TASK, "c")
    updates.begin(WORKING)
    assert changes(updates.see(delta("Let "))) == [("Let ", False)]
    assert changes(updates.see(delta("me.", 4))) == [("me.", True)]
    assert changes(updates.see(delta("Done.", step=1))) == [("Done.", False)]
    assert changes(updates.whole_text()) == [("Done.", False)]


def test_text_that_begins_again_is_replaced_where_it_differs() -> None:
    updates = TaskUpdates(TASK, "c")
    updates.see(delta("Hello"))
    assert updates.see(event("message.reset", reason="resumed")) == []
    assert changes(updates.see(delta("Now"))) == [("Now", False)]


def test_texts_of_workstreams_are_left_out() -> None:
    assert TaskUpdates(TASK, "c").see(delta("secret", run=CHILD)) == []


def test_files_and_the_answer_come_once_and_the_status_last() -> None:
    updates = TaskUpdates(TASK, "c")
    updates.begin(WORKING)
    updates.see(delta("Hello"))
    file = {"artifactId": "f", "name": "a.txt", "parts": [{"raw": ""}]}
    done = {"status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [answer_artifact("Hello"), file]}
    sent = updates.refresh(done)
    assert [list(each) for each in sent] == [["artifactUpdate"], ["statusUpdate"]]
    assert sent[0]["artifactUpdate"]["artifact"] == file and sent[0]["artifactUpdate"]["lastChunk"]
    assert updates.refresh(done) == []
    with_sources = {**done, "artifacts": [answer_artifact("Hello [1]"), file]}
    assert changes(updates.refresh(with_sources)) == [("Hello [1]", False)]


def test_the_events_after_which_a_task_is_read_again() -> None:
    updates = TaskUpdates(TASK, "c")
    updates.begin(WORKING)
    assert updates.may_change(event("run.completed", None, seq=3))
    assert not updates.may_change(event("run.completed", None, CHILD, seq=3))
    assert updates.may_change(event("input.requested", None, CHILD, seq=3)), "a workstream asks for its task"
    assert not updates.may_change(event("tool.completed", 0, seq=3))
    updates.begin({"status": {"state": "TASK_STATE_INPUT_REQUIRED"}})
    assert updates.may_change(event("tool.completed", 0, seq=3)), "the question was answered"
