"""Messages and commands of people to workstreams: they count once, the parent learns of them, and a pause holds it."""

import json
import threading
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.db.models import F
from django.utils import timezone

from agents_app import services as runs
from agents_app.errors import IdempotencyMismatch
from agents_app.models import Run, RunMessage
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.runs import children
from agents_app.runs.reaper import Reaper
from agents_app.selectors import child_view
from agents_app.services import NewChild, PersonRequest
from agents_app.types import ModelRequest
from agents_app.types.child_runs import ChildSpec
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from audit_app.kernel.ids import new_id
from audit_app.models import AuditEntry
from sessions_app import integrity_checks
from tests.support.engine import EngineRig, until
from tests.support.team_script import TeamScript
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"{tool}_{arguments.get('id', '')}", tool, json.dumps(arguments))


def launch(**arguments: Any) -> ToolCall:
    return call("launch_workstream", instruction="dig", **arguments)


def team(rig: EngineRig, main: list[Reply], **of_children: list[Reply]) -> TeamScript:
    """Start the message of a team. Its first workstream, `a`, has the name "Deep one" and is interactive."""
    rig.agent(Reply(), tool_profile="teams", owner_id=rig.owner.pk)
    script = ScriptedProvider.scripts["script"] = TeamScript(main, {"Deep one": of_children.pop("a"), **of_children})
    return script


def child(name: str = "a") -> Run:
    return Run.objects.select_related("agent").get(workstream=name)


def ask(text: str = "", command: str = runs.MESSAGE, key: str = "") -> None:
    runs.ask_child(child().pk, PersonRequest(text, "user:7", command, key))


def texts(request: ModelRequest) -> str:
    return "\n".join(message.content for message in request.messages)


def is_idle() -> bool:
    return Run.objects.filter(workstream="a", waiting_on="parent", end_stored=True).exists()


DEEP = launch(id="a", name="Deep one", interactive=True)


def test_a_message_is_the_next_task_of_an_interactive_workstream_and_its_parent_is_told(rig: EngineRig) -> None:
    go_on = threading.Event()
    script = team(
        rig,
        [Reply(tool_calls=(DEEP, launch(id="b"))), Reply(("Started.",)), Reply(("Both.",))],
        a=[Reply(("First.",)), Reply(("Second.",))],
        b=[Reply(("Beta.",), held_by=go_on)],
    )
    accepted = rig.send("go")
    until(lambda: Run.objects.filter(workstream="a", waiting_on="parent").exists())
    for _ in range(2):
        ask("And the\nsecond?", key="k1")
    with pytest.raises(IdempotencyMismatch):
        ask("Another", key="k1")
    until(lambda: Run.objects.filter(workstream="a", waiting_on="parent", answer="Second.").exists())
    go_on.set()
    assert rig.wait(accepted.run_id).answer == "Both."
    assert texts(script.requests_of("Deep one")[-1]).count("And the\nsecond?") == 1
    line = f"[Workstream a ({child().pk})] A person wrote to it: And the second?"
    assert texts(script.requests_of("main")[-1]).count(line) == 1
    entry = AuditEntry.objects.get(action="WorkstreamSteered")
    assert (entry.actor, entry.details["command"], entry.details["text"]) == ("user:7", "message", "And the\nsecond?")
    runs.cancel_run(child().pk)
    with pytest.raises(Conflict) as refused:
        ask("Too late")
    assert refused.value.code == "workstream_ended"
    ask("And the\nsecond?", key="k1")  # repeated after the end: it was sent
    assert integrity_checks.find_violations() == []


def test_a_workstream_that_a_person_has_paused_holds_its_parent_until_it_is_resumed(rig: EngineRig) -> None:
    go_on, others = threading.Event(), threading.Event()
    script = team(
        rig,
        [Reply(tool_calls=(launch(id="a", name="Deep one"), launch(id="b"))), Reply(("Wait.",)), Reply(("Done.",))],
        a=[Reply(tool_calls=(call("echo", text="hi"),), held_by=go_on, pieces=("x",)), Reply(("Alpha.",))],
        b=[Reply(("Beta.",), held_by=others)],
    )
    accepted = rig.send("go")
    until(lambda: script.requests_of("Deep one"))
    ask(command=children.PAUSE)
    ask("Be brief", command=children.ADD_CONSTRAINT)
    go_on.set()
    until(is_idle)
    with pytest.raises(Conflict) as refused:
        children.steer_child(accepted.run_id, child().pk, children.RESUME)
    assert refused.value.code == "paused_by_person"
    others.set()
    until(lambda: Run.objects.filter(workstream="b", status="completed", end_stored=True).exists())
    until(lambda: Run.objects.filter(pk=accepted.run_id, waiting_on="children", owner=None, ready_at=None).exists())
    assert len(script.requests_of("Deep one")) == 1 and len(script.requests_of("main")) == 2
    ask(command=children.RESUME)
    assert rig.wait(accepted.run_id).answer == "Done."
    told = texts(script.requests_of("main")[-1])
    assert "Alpha." in told and "A person has paused it." in told and "A person has resumed it." in told
    assert "is paused]" not in told
    assert "Further constraint: Be brief" in texts(script.requests_of("Deep one")[-1])
    assert child().paused_by == "" and child().status == "completed"
    assert integrity_checks.find_violations() == []


def test_a_forgotten_pause_ends_the_workstream_and_its_parent_goes_on(rig: EngineRig) -> None:
    go_on = threading.Event()
    script = team(
        rig,
        [Reply(tool_calls=(launch(id="a", name="Deep one"),)), Reply(("Wait.",)), Reply(("Done.",))],
        a=[Reply(("So far: 17.",), tool_calls=(call("echo", text="hi"),), held_by=go_on), Reply(("Never.",))],
    )
    accepted = rig.send("go")
    until(lambda: script.requests_of("Deep one"))
    ask(command=children.PAUSE)
    go_on.set()
    until(is_idle)
    until(lambda: Run.objects.filter(pk=accepted.run_id, waiting_on="children", owner=None).exists())
    left = day_after(child())
    assert timedelta(hours=23) < left <= timedelta(days=1)
    Run.objects.filter(workstream="a").update(alarm_at=F("alarm_at") - timedelta(days=1))
    Reaper().sweep()
    assert rig.wait(accepted.run_id).answer == "Done."
    assert (child().status, child().error_code, child().answer) == ("timed_out", "pause_over", "So far: 17.")
    told = texts(script.requests_of("main")[-1])
    assert "It was paused, and nobody resumed it within a day." in told and "So far: 17." in told
    assert len(script.requests_of("Deep one")) == 1
    assert integrity_checks.find_violations() == []


def day_after(run: Run) -> timedelta:
    """Return the time until the end of a pause that a card shows."""
    shown = child_view(run).deadline_at
    assert shown and run.deadline_at is None
    return shown - timezone.now()


def test_the_pause_of_an_idle_workstream_has_the_same_limit(rig: EngineRig) -> None:
    go_on = threading.Event()
    team(
        rig,
        [Reply(tool_calls=(DEEP, launch(id="b"))), Reply(("Started.",)), Reply(("Both.",))],
        a=[Reply(("First.",))],
        b=[Reply(("Beta.",), held_by=go_on)],
    )
    accepted = rig.send("go")
    until(is_idle)
    assert child_view(child()).deadline_at is None
    ask(command=children.PAUSE)
    assert timedelta(hours=23) < day_after(child()) <= timedelta(days=1)
    Run.objects.update(alarm_at=None)  # as before pauses had an end
    import_module("agents_app.migrations.0041_alarms_of_pauses").set_alarms(apps, None)
    assert timedelta(hours=23) < day_after(child()) <= timedelta(days=1)
    assert [run.workstream for run in Run.objects.exclude(alarm_at=None)] == ["a"]
    ask(command=children.RESUME)
    assert (child().alarm_at, child().waiting_on) == (None, "parent")
    go_on.set()
    assert rig.wait(accepted.run_id).answer == "Both."


def test_resuming_an_idle_workstream_does_not_repeat_its_answer(rig: EngineRig) -> None:
    go_on = threading.Event()
    script = team(
        rig,
        [Reply(tool_calls=(DEEP, launch(id="b"))), Reply(("Started.",)), Reply(("Both.",))],
        a=[Reply(("First.",))],
        b=[Reply(("Beta.",), held_by=go_on)],
    )
    accepted = rig.send("go")
    until(lambda: Run.objects.filter(workstream="a", waiting_on="parent").exists())
    ask(command=children.PAUSE)
    ask(command=children.RESUME)
    assert child().status == "waiting" and child().ready_at is None
    go_on.set()
    assert rig.wait(accepted.run_id).answer == "Both."
    assert texts(script.requests_of("main")[-1]).count("First.") == 1


def test_a_request_goes_to_the_run_that_adopts_the_workstream_meanwhile(
    idle: EngineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle.agent(Reply())
    first, second = idle.send("go").run_id, idle.send("and?").run_id
    asked = children.start_child(NewChild(new_id(), first, "a", ChildSpec("a", is_background=True)))
    lock = children.lock_in_tree

    def adopt_before_lock(run_id: UUID) -> Run:
        Run.objects.filter(pk=asked.pk).update(listener=second)
        return lock(run_id)

    monkeypatch.setattr(children, "lock_in_tree", adopt_before_lock)
    ask("Be brief", key="k1")
    assert not RunMessage.objects.filter(run_id=first).exists()
    assert RunMessage.objects.filter(run_id=second, kind="notice").count() == 1
    assert RunMessage.objects.filter(run=asked, text="Be brief").count() == 1


def test_what_cannot_be_asked_is_refused(idle: EngineRig) -> None:
    idle.agent(Reply())
    root_id = idle.send("go").run_id
    with pytest.raises(Conflict) as refused:
        runs.ask_child(root_id, PersonRequest("Hi", "user:7"))
    assert refused.value.code == "not_a_workstream"
    with pytest.raises(NotFound):
        runs.ask_child(uuid4(), PersonRequest("Hi", "user:7"))
    plain = children.start_child(NewChild(new_id(), root_id, "a", ChildSpec("a")))
    for command, code in (("shout", "unknown_command"), (children.SET_PRIORITY, "text_required")):
        with pytest.raises(InvalidInput) as invalid:
            runs.ask_child(plain.pk, PersonRequest(" ", "user:7", command))
        assert invalid.value.code == code
    assert not AuditEntry.objects.filter(action="WorkstreamSteered").exists()
    assert not RunMessage.objects.filter(run_id=root_id).exists()
