"""Branches of sessions: editing, regenerating and selecting, and what later runs, readers and checks make of them."""

import threading
from collections.abc import Iterator
from uuid import UUID

import pytest
from django.utils import timezone

from agents_app.errors import IdempotencyMismatch, RunBusy
from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply, Script
from agents_app.types import RunOptions, RunStatus
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from audit_app.models import AuditEntry, Event
from sessions_app import selectors, services
from sessions_app.conversation import branches
from sessions_app.conversation.session_texts import StoredSessionTexts
from sessions_app.integrity_checks import find_violations
from sessions_app.models import Attachment, Branch, ChannelAccount, Session, Turn
from sessions_app.services import Accepted, edit_message, regenerate_answer, select_branch
from tests.support.engine import EngineRig

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_violations(rig: EngineRig) -> Iterator[None]:
    yield
    assert not find_violations()


def numbered(rig: EngineRig, **fields: object) -> Script:
    """Let the agent answer with A1, A2, …"""
    return rig.agent(*(Reply((f"A{number}",)) for number in range(1, 9)), **fields)


def ask(rig: EngineRig, text: str) -> Accepted:
    accepted = rig.send(text)
    rig.wait(accepted.run_id)
    return accepted


def the_session() -> Session:
    return Session.objects.select_related("agent", "owner").get()


def edit(rig: EngineRig, run_id: UUID, text: str, **given: str) -> Accepted:
    accepted = edit_message(the_session(), run_id, text, owner=rig.owner, **given)
    rig.wait(accepted.run_id)
    return accepted


def regenerate(rig: EngineRig, run_id: UUID | None = None, **given: str) -> Accepted:
    accepted = regenerate_answer(the_session(), run_id, owner=rig.owner, **given)
    rig.wait(accepted.run_id)
    return accepted


def shown() -> list[str]:
    return [turn.content for turn in selectors.list_turns(the_session())]


def request_texts(script: Script, number: int) -> list[str]:
    return [message.content for message in script.requests[number].messages if message.role != "system"]


def test_an_edited_message_begins_a_branch_without_what_followed(rig: EngineRig) -> None:
    script = numbered(rig)
    ask(rig, "one")
    second = ask(rig, "two")
    ask(rig, "three")
    edit(rig, second.run_id, "two, edited")
    assert request_texts(script, 3) == ["one", "A1", "two, edited"]
    assert shown() == ["one", "A1", "two, edited", "A4"]
    ask(rig, "four")
    assert request_texts(script, 4) == ["one", "A1", "two, edited", "A4", "four"]
    assert Turn.objects.count() == 10, "nothing is deleted"


def test_a_regenerated_answer_has_the_same_question(rig: EngineRig) -> None:
    script = numbered(rig)
    ask(rig, "one")
    ask(rig, "two")
    again = regenerate(rig)
    assert request_texts(script, 2) == request_texts(script, 1) == ["one", "A1", "two"]
    assert shown() == ["one", "A1", "two", "A3"]
    regenerate(rig, again.run_id)
    assert [(branch.parent, branch.replaces) for branch in Branch.objects.all()] == [(0, 1), (0, 1)]


def test_the_earlier_path_is_selected_again_with_all_its_turns(rig: EngineRig) -> None:
    script = numbered(rig)
    first = ask(rig, "one")
    ask(rig, "two")
    edit(rig, first.run_id, "uno")
    select_branch(the_session(), 0)
    assert shown() == ["one", "A1", "two", "A2"]
    ask(rig, "three")
    assert request_texts(script, 3) == ["one", "A1", "two", "A2", "three"]
    select_branch(the_session(), 1)
    assert shown() == ["uno", "A3"]
    select_branch(the_session(), 0)
    assert shown()[-2:] == ["three", "A4"], "later messages continue the branch that was active"


def test_a_branch_of_a_branch_has_the_turns_before_it(rig: EngineRig) -> None:
    numbered(rig)
    ask(rig, "one")
    second = ask(rig, "two")
    edit(rig, second.run_id, "two b")
    third = ask(rig, "three")
    edit(rig, third.run_id, "three b")
    assert shown() == ["one", "A1", "two b", "A3", "three b", "A5"]
    select_branch(the_session(), 1)
    assert shown() == ["one", "A1", "two b", "A3", "three", "A4"]


def test_the_turns_of_any_branch_can_be_read(rig: EngineRig) -> None:
    numbered(rig)
    first = ask(rig, "one")
    edit(rig, first.run_id, "uno")
    session = the_session()
    of_first = selectors.list_turns(session, among=branches.turns_of(session.id, 0))
    assert [turn.content for turn in of_first] == ["one", "A1"]
    with pytest.raises(NotFound):
        branches.turns_of(session.id, 7)


def test_no_branch_begins_and_none_is_selected_during_a_run(rig: EngineRig) -> None:
    go_on = threading.Event()
    rig.agent(Reply(("A1",)), Reply(("A2",), held_by=go_on))
    first = ask(rig, "one")
    second = rig.send("two")
    with pytest.raises(RunBusy):
        edit(rig, first.run_id, "uno")
    with pytest.raises(RunBusy):
        regenerate(rig)
    go_on.set()
    rig.wait(second.run_id)
    assert not Branch.objects.exists() and not Turn.objects.filter(is_off_path=True).exists()


def test_selecting_takes_the_end_of_the_run(rig: EngineRig) -> None:
    go_on = threading.Event()
    rig.agent(Reply(("A1",)), Reply(("A2",), held_by=go_on))
    first = ask(rig, "one")
    accepted = edit_message(the_session(), first.run_id, "uno", owner=rig.owner)
    with pytest.raises(RunBusy, match="Wait for its answer or stop it"):
        select_branch(the_session(), 0)
    go_on.set()
    rig.wait(accepted.run_id)
    select_branch(the_session(), 0)
    select_branch(the_session(), 0)
    assert shown() == ["one", "A1"]
    with pytest.raises(NotFound, match="no such branch"):
        select_branch(the_session(), 2)


def test_the_same_key_begins_one_branch(rig: EngineRig) -> None:
    numbered(rig)
    first = ask(rig, "one")
    once = edit(rig, first.run_id, "uno", idempotency_key="k")
    again = edit(rig, first.run_id, "uno", idempotency_key="k")
    assert (again.run_id, again.is_duplicate) == (once.run_id, True)
    regenerated = regenerate(rig, idempotency_key="r")
    assert regenerate(rig, idempotency_key="r").run_id == regenerated.run_id
    assert Branch.objects.count() == 2
    with pytest.raises(IdempotencyMismatch):
        edit(rig, first.run_id, "due", idempotency_key="k")
    with pytest.raises(InvalidInput):
        edit(rig, first.run_id, "  ")


def test_a_branch_keeps_the_options_and_the_restrictions_of_the_message(rig: EngineRig) -> None:
    numbered(rig)
    accepted = rig.send("one", run=RunOptions(instructions="Be brief.", temperature=0.5, note={"x": 1}))
    rig.wait(accepted.run_id)
    Run.objects.update(session_policy={"deniedTools": ["web_fetch"]})
    again = Run.objects.get(pk=regenerate(rig).run_id)
    assert again.options == {"instructions": "Be brief.", "temperature": 0.5}
    assert again.session_policy == {"deniedTools": ["web_fetch"]}


def test_a_message_that_joined_a_run_is_repeated_with_it(rig: EngineRig) -> None:
    go_on = threading.Event()
    script = rig.agent(Reply(("A1",), held_by=go_on), Reply(("A2",)))
    accepted = rig.send("one")
    rig.send("more", busy="steer")
    go_on.set()
    rig.wait(accepted.run_id)
    regenerate(rig)
    assert request_texts(script, len(script.requests) - 1) == ["one\n\nmore"]


def test_a_message_joins_a_run_in_its_branch(rig: EngineRig) -> None:
    go_on = threading.Event()
    rig.agent(Reply(("A1",)), Reply(("A2",), held_by=go_on), Reply(("A3",)))
    first = ask(rig, "one")
    accepted = edit_message(the_session(), first.run_id, "uno", owner=rig.owner)
    rig.send("more", busy="steer")
    go_on.set()
    rig.wait(accepted.run_id)
    assert shown()[:2] == ["uno", "more"]


def test_a_retry_is_regenerated_as_the_message_that_it_retried(rig: EngineRig) -> None:
    script = rig.agent(Reply(error="bad_request"), Reply(("A2",)), Reply(("A3",)))
    failed = rig.send("one")
    rig.wait(failed.run_id)
    rig.wait(services.retry_run(the_session(), failed.run_id, actor="user:1"))
    regenerate(rig)
    assert shown() == ["one", "A3"] and request_texts(script, 2) == ["one"]
    with pytest.raises(Conflict, match="another branch"):
        services.retry_run(the_session(), failed.run_id, actor="user:1")


def test_attached_files_come_along_and_keep_their_origin(rig: EngineRig) -> None:
    script = numbered(rig)
    accepted = ask(rig, "See docs.test")
    turn = Turn.objects.get(pk=accepted.turn_id)
    Turn.objects.filter(pk=turn.pk).update(attached="[File notes.txt] secret.test")
    account, now = ChannelAccount.objects.create(channel="telegram"), timezone.now()
    fields = {"kind": "file", "status": "stored", "path": "ab/c", "until": now, "created_at": now}
    Attachment.objects.create(turn=turn, account=account, filename="notes.txt", **fields)
    changed = edit(rig, accepted.run_id, "See elsewhere.test")
    assert request_texts(script, 1) == ["See elsewhere.test\n\n[File notes.txt] secret.test"]
    assert Attachment.objects.get(turn_id=changed.turn_id).path == "ab/c"
    reader = StoredSessionTexts()
    assert reader.origins(turn.session_id) == ("file:attachment",)
    assert reader.texts(turn.session_id).own == ("See elsewhere.test",), "what was edited away names no destination"


def test_what_a_branch_has_read_taints_the_others(rig: EngineRig) -> None:
    numbered(rig)
    accepted = ask(rig, "one")
    Turn.objects.filter(pk=accepted.turn_id).update(attached="from outside")
    Turn.objects.filter(pk=edit(rig, accepted.run_id, "uno").turn_id).update(attached="")
    assert StoredSessionTexts().origins(the_session().id) == ("file:attachment",)


def test_messages_of_channels_and_imported_ones_cannot_be_replaced(rig: EngineRig) -> None:
    numbered(rig)
    accepted = ask(rig, "one")
    with pytest.raises(NotFound):
        edit(rig, UUID(int=1), "uno")
    Session.objects.update(channel="Telegram")
    with pytest.raises(Conflict, match="Telegram keeps showing"):
        edit(rig, accepted.run_id, "uno")


def test_a_change_of_branch_is_an_event_and_an_audit_entry(rig: EngineRig) -> None:
    numbered(rig)
    ask(rig, "one")
    accepted = ask(rig, "two")
    edit(rig, accepted.run_id, "zwei")
    select_branch(the_session(), 0)
    events = Event.objects.filter(type="branch.selected").order_by("seq")
    assert [event.payload for event in events] == [
        {"branch": 1, "place": 1, "reason": "edited"},
        {"branch": 0, "place": 1, "reason": "selected"},
    ]
    assert AuditEntry.objects.filter(action="BranchSelected").count() == 2
    following = Event.objects.filter(seq=events[0].seq + 1).get()
    assert following.type == "message.received", "the change and its message are stored at once"


def test_nothing_of_a_branch_is_stored_if_its_message_is_not(rig: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered(rig)
    accepted = ask(rig, "one")

    def fail(*args: object, **given: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr("sessions_app.conversation.receive_message.hot_queries.INSERT_TURNS.run", fail)
    with pytest.raises(RuntimeError, match="killed"):
        edit_message(the_session(), accepted.run_id, "uno", owner=rig.owner)
    assert not Branch.objects.exists() and the_session().active_branch == 0
    assert Run.objects.filter(status=RunStatus.QUEUED).count() == 0 and shown() == ["one", "A1"]
