"""Child runs that outlive the answer of the run that launched them, and the runs that hear them afterwards."""

import json
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from agents_app import selectors
from agents_app import services as runs
from agents_app.models import Agent, Run
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.runs import child_messages, deadline_sweep, lease, writes
from agents_app.runs.run_policy import limits_of
from agents_app.runs.writes import Spent
from agents_app.types import ModelRequest, ModelResponse, RunStatus, RunTranscript
from agents_app.types.child_runs import ChildSpec
from audit_app.kernel.errors import Conflict
from sessions_app import integrity_checks
from sessions_app import services as sessions
from sessions_app.conversation import report_runs
from sessions_app.models import ChannelAccount, Delivery, InboundMessage, Session
from tests.support.engine import EngineRig, until
from tests.support.team_script import TeamScript
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

PAST = timezone.now() - timedelta(hours=1)


def launch(name: str = "a", **arguments: Any) -> Reply:
    given = {"id": name, "instruction": f"task {name}", **arguments}
    return Reply(tool_calls=(ToolCall("launch", "launch_workstream", json.dumps(given)),))


def calls(tool: str, **arguments: Any) -> Reply:
    return Reply(tool_calls=(ToolCall(tool, tool, json.dumps(arguments)),))


def team(rig: EngineRig, main: list[Reply], **of_children: list[Reply]) -> TeamScript:
    rig.agent(Reply(), tool_profile="teams")
    script = ScriptedProvider.scripts["script"] = TeamScript(main, of_children)
    return script


def texts(request: ModelRequest) -> str:
    return "\n".join(message.content for message in request.messages)


def report_run(session_id: UUID) -> RunTranscript:
    """Return the ended run that the results of child runs have started."""
    rows = Run.objects.filter(conversation_id=session_id, kind="report", ended_at__isnull=False)
    found = until(lambda: rows.first())
    return selectors.get_transcript(found.pk)


def child(name: str = "a") -> Run:
    return Run.objects.get(workstream=name)


def check() -> None:
    assert integrity_checks.find_violations() == []


def test_a_background_child_works_on_after_the_answer_and_its_result_starts_a_run(rig: EngineRig) -> None:
    go_on = threading.Event()
    script = team(
        rig,
        [launch(background=True), Reply(("I look into it.",)), Reply(("It is Alpha.",))],
        a=[Reply(("Al", "pha."), held_by=go_on)],
    )
    accepted = rig.send("go")
    assert rig.wait(accepted.run_id).answer == "I look into it."
    assert (child().status, child().is_on_its_own) == ("running", True)
    check()
    go_on.set()
    told = report_run(accepted.session_id)
    assert (told.run.status, told.answer) == (RunStatus.COMPLETED, "It is Alpha.")
    assert (child().listener_id, child().is_on_its_own, child().end_stored) == (told.run.id, False, True)
    last = script.requests_of("main")[-1].messages
    assert "Alpha." in last[-1].content and "Nobody has written" in last[-1].content
    assert script.requests_of("main")[0].messages[0] == last[0], "the beginning of requests is no longer the same"
    assert Run.objects.filter(parent=None).count() == 2
    check()


def test_one_in_the_background_has_up_to_a_day_and_others_half_an_hour(rig: EngineRig) -> None:
    too_long = [launch("b", deadline_seconds=1801), launch("c", background=True, deadline_seconds=86_401)]
    allowed = launch(background=True, deadline_seconds=86_400)
    go_on = threading.Event()
    script = team(rig, [*too_long, allowed, Reply(("I look into it.",))], a=[Reply(("Al", "pha."), held_by=go_on)])
    accepted = rig.send("go")
    rig.wait(accepted.run_id)
    messages = script.requests_of("main")[2].messages
    first, second = [message.content for message in messages if message.role == "tool"]
    assert "deadline_seconds is 1801" in first and "deadline_seconds is 86401" in second
    assert all("At most 1800; with background 86400." in refusal for refusal in (first, second))
    started = Run.objects.select_related("agent").get(parent__isnull=False)
    assert started.deadline_at and round((started.deadline_at - started.created_at).total_seconds()) == 86_400
    assert limits_of(started).active_seconds == 86_400
    go_on.set()
    report_run(accepted.session_id)


def test_the_next_message_hears_a_silent_child_and_addresses_an_interactive_one(rig: EngineRig) -> None:
    script = team(
        rig,
        [
            launch(notify="silent", background=True),
            launch("b", interactive=True),
            calls("wait_workstreams", workstreams=["b"]),
            Reply(("Both are at it.",)),
            calls("list_workstreams"),
            calls("message_workstream", workstream="b", message="And the second?"),
            calls("wait_workstreams"),
            Reply(("The second is Delta.",)),
        ],
        a=[Reply(("Alpha.",))],
        b=[Reply(("Beta.",)), Reply(("Delta.",))],
    )
    accepted = rig.send("go")
    assert rig.wait(accepted.run_id).answer == "Both are at it."
    until(lambda: child().ended_at)
    report_runs.sweep()
    second = rig.wait(rig.send("and now?").run_id)
    assert second.answer == "The second is Delta."
    assert "Delta." in texts(script.requests_of("main")[-1])
    heard = Run.objects.get(pk=second.run.id)
    assert heard.child_count == (2 if child().listener_id == heard.pk else 1)
    assert [run.kind for run in Run.objects.filter(parent=None)] == ["message", "message"]
    assert (child("b").is_on_its_own, child("b").waiting_on) == (True, "parent")
    sessions.cancel_session_runs(Session.objects.get(), reason="Stopped.")
    assert (child("b").status, child("b").error_code) == ("cancelled", "cancelled")
    report_runs.sweep()
    assert not Run.objects.filter(ended_at=None).exists()
    check()


def test_a_report_that_says_nothing_is_no_message(rig: EngineRig) -> None:
    go_on = threading.Event()
    main = [launch(background=True), Reply(("Started.",)), Reply((" ",))]
    team(rig, main, a=[Reply(("Nothing ", "new."), held_by=go_on)])
    accepted = rig.send("go")
    rig.wait(accepted.run_id)
    go_on.set()
    told = report_run(accepted.session_id)
    assert (told.run.status, told.answer) == (RunStatus.COMPLETED, " ")
    check()


def idle_with_report(idle: EngineRig, **given: Any) -> tuple[Any, Run]:
    """Return an answered message and its child on its own, which has ended."""
    idle.agent(Reply(), tool_profile="teams")
    accepted = idle.send("go")
    spec = runs.NewChild(UUID(int=7), accepted.run_id, "a", child_spec(**given))
    started = runs.start_child(spec)
    answer(accepted.run_id)
    answer(started.pk)
    return accepted, Run.objects.get(pk=started.pk)


def child_spec(**given: Any) -> ChildSpec:
    return ChildSpec("a", "Work.", is_background=True, **given)


def answer(run_id: UUID, text: str = "Done.") -> None:
    """Let a process claim the run, and the model answer."""
    claim = lease.claim(uuid4(), run_id)
    assert claim
    writes.record_and_decide(
        claim, claim.snapshot, len(claim.snapshot.steps), ModelResponse(text), Spent(0.1, timezone.now())
    )


def started_runs() -> list[Run]:
    return list(Run.objects.filter(kind="report"))


def test_one_run_is_started_for_all_results_however_often_a_sweep_looks(idle: EngineRig) -> None:
    accepted, _ = idle_with_report(idle)
    for _ in range(3):
        report_runs.sweep()
    [started] = started_runs()
    assert (started.status, started.session_policy, started.spec) == ("queued", {}, {"runs_before": 2})
    runs.cancel_run(started.pk)
    report_runs.sweep()
    assert len(started_runs()) == 1, "a person had withdrawn it"
    answer(idle.send("next").run_id)
    assert child().listener_id != started.pk and child().end_stored
    check()


def test_no_run_is_started_while_one_of_the_person_will_hear_it(idle: EngineRig) -> None:
    idle_with_report(idle)
    queued = idle.send("next")
    report_runs.sweep()
    assert started_runs() == []
    answer(queued.run_id)
    assert (child().listener_id, child().end_stored) == (queued.run_id, True)
    check()


def test_a_run_whose_reports_another_one_has_heard_ends_without_a_call_of_the_model(idle: EngineRig) -> None:
    idle_with_report(idle)
    report_runs.sweep()
    [started] = started_runs()
    Run.objects.filter(pk=child().pk).update(is_on_its_own=False, end_stored=True)
    claim = lease.claim(uuid4(), started.pk)
    assert claim and writes.decide_and_apply(claim, claim.snapshot) is None
    assert Run.objects.values_list("status", "answer").get(pk=started.pk) == ("completed", "")


def progress(percent: int, **given: Any) -> Reply:
    arguments = json.dumps({"text": f"[Workstream b (1) completed] {percent} read", "percent": percent})
    return Reply(("I read.",), tool_calls=(ToolCall(f"p{percent}", "report_progress", arguments),), **given)


def ended_reports(number: int) -> list[Run]:
    """Return the ended runs that child runs have started, once there are so many."""
    rows = Run.objects.filter(kind="report", ended_at__isnull=False).order_by("id")
    return until(lambda: list(rows) if len(rows.all()) == number else None)


def test_progress_of_a_child_that_notifies_changes_starts_a_run_once_a_while(
    rig: EngineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_messages, "PROGRESS_SECONDS", 3600)
    steps = [threading.Event() for _ in range(5)]
    launches = (*launch(background=True, notify="changes").tool_calls, *other_launch("b").tool_calls)
    script = team(
        rig,
        [Reply(tool_calls=launches), Reply(("I look into it.",)), Reply(("It goes on.",))],
        a=[
            *(progress(percent, held_by=step) for percent, step in zip((40, 60, 80), steps, strict=False)),
            Reply(("Al", "pha."), held_by=steps[3]),
        ],
        b=[progress(10, held_by=steps[0]), Reply(("Be", "ta."), held_by=steps[4])],
    )
    rig.wait(rig.send("go").run_id)
    steps[0].set()
    [first] = ended_reports(1)
    steps[1].set()
    noted = until(lambda: child().progress_at)
    assert noted == Run.objects.get(pk=first.pk).started_at + timedelta(seconds=3600)
    steps[2].set()
    until(lambda: len(script.requests_of("a")) == 4)
    until(lambda: child("b").waiting_on == "" and len(script.requests_of("b")) == 2)
    report_runs.sweep()
    assert Run.objects.filter(kind="report").count() == 1
    Run.objects.filter(workstream="a").update(progress_at=PAST)
    ended_reports(2)
    assert (child().progress_at, child("b").progress_at, child().is_on_its_own) == (None, None, True)
    steps[3].set()
    assert {run.answer for run in ended_reports(3)} == {"It goes on."}
    heard = [request.messages[-1].content for request in script.requests_of("main")[-3:]]
    for percent, text in zip((40, 80), heard, strict=False):
        title, opening, line = text.split("\n")[:3]
        assert title == f"[Workstream a ({child().pk}) reports progress]" and opening.startswith("[tool output ")
        assert line == f"[Workstream b (1) completed] {percent} read ({percent} %)" and "Nobody has written" in text
    assert "60 read" not in "".join(heard) and "Alpha." in heard[2] and "reports progress" not in heard[2]
    steps[4].set()
    until(lambda: child("b").ended_at)
    check()


def other_launch(name: str) -> Reply:
    arguments = json.dumps({"id": name, "instruction": "task", "background": True, "notify": "silent"})
    return Reply(tool_calls=(ToolCall("other", "launch_workstream", arguments),))


def working_on_its_own(idle: EngineRig, **given: Any) -> None:
    """Leave a child run on its own that has reported progress."""
    idle.agent(Reply(), tool_profile="teams")
    accepted = idle.send("go")
    runs.start_child(runs.NewChild(UUID(int=7), accepted.run_id, "a", child_spec(notify="changes")))
    Run.objects.filter(workstream="a").update(progress_at=PAST, **given)
    report_runs.sweep()
    assert started_runs() == [], "a run listens"
    answer(accepted.run_id)


def test_progress_starts_one_run_which_a_person_may_cancel(idle: EngineRig) -> None:
    working_on_its_own(idle)
    for _ in range(3):
        report_runs.sweep()
    [started] = started_runs()
    runs.cancel_run(started.pk)
    Run.objects.filter(workstream="a").update(progress_at=PAST)
    report_runs.sweep()
    assert len(started_runs()) == 1, "a person had withdrawn it"
    answer(idle.send("next").run_id)
    assert (child().progress_at, child().is_on_its_own, child().starts_run) == (None, True, True)


@pytest.mark.parametrize(
    "hindered", [{"is_paused": True}, {"cancel_requested_at": PAST}, {"progress_at": PAST + timedelta(days=1)}]
)
def test_progress_of_a_child_that_is_hindered_starts_no_run(idle: EngineRig, hindered: dict[str, Any]) -> None:
    working_on_its_own(idle)
    Run.objects.filter(workstream="a").update(**hindered)
    report_runs.sweep()
    assert started_runs() == []


def test_nobody_is_told_who_lost_the_agent_or_the_session(idle: EngineRig) -> None:
    idle_with_report(idle)
    Agent.objects.update(is_shared_with_everyone=False)
    report_runs.sweep()
    assert started_runs() == [] and not child().starts_run
    Agent.objects.update(is_shared_with_everyone=True)
    report_runs.sweep()
    assert started_runs() == []
    answer(idle.send("next").run_id)
    assert child().end_stored
    check()


def test_an_agent_that_is_stopped_tells_when_it_may_work_again(idle: EngineRig) -> None:
    idle_with_report(idle)
    runs.stop_agents("default")
    report_runs.sweep()
    assert started_runs() == []
    runs.resume_agents("default")
    report_runs.sweep()
    assert len(started_runs()) == 1


def test_the_runs_of_a_chain_of_reports_are_limited(idle: EngineRig, settings: Any) -> None:
    settings.KOMAND_MAX_RUNS_PER_MESSAGE = 4
    accepted, _ = idle_with_report(idle)
    report_runs.sweep()
    [started] = started_runs()
    runs.start_child(runs.NewChild(UUID(int=8), started.pk, "b", child_spec()))
    with pytest.raises(Conflict, match="4 runs"):
        runs.start_child(runs.NewChild(UUID(int=9), started.pk, "c", child_spec()))
    answer(started.pk)
    answer(UUID(int=8))
    report_runs.sweep()
    assert len(started_runs()) == 1, "the results wait for a message of a person"
    answer(idle.send("next").run_id)
    assert child("b").end_stored
    check()


def test_a_child_on_its_own_is_cancelled_with_its_session_and_reported_with_the_next_message(idle: EngineRig) -> None:
    idle.agent(Reply(), tool_profile="teams")
    accepted = idle.send("go")
    runs.start_child(runs.NewChild(UUID(int=7), accepted.run_id, "a", child_spec()))
    answer(accepted.run_id)
    session = Session.objects.get()
    assert sessions.cancel_session_runs(session, reason="Stopped.") == 1
    assert sessions.cancel_session_runs(session, reason="Stopped.") == 0
    report_runs.sweep()
    assert started_runs() == []
    answer(idle.send("next").run_id)
    assert child().end_stored
    check()


def test_a_message_to_a_run_that_waits_is_answered_at_once_and_the_results_come_later(rig: EngineRig) -> None:
    go_on = threading.Event()
    script = team(
        rig,
        [
            launch(),
            launch("b"),
            Reply(("I wait for both. ",), tool_calls=calls("wait_workstreams").tool_calls),
            Reply(("It is noon.",)),
            Reply(("Alpha and Beta.",)),
        ],
        a=[Reply(("Alpha.",))],
        b=[Reply(("Be", "ta."), held_by=go_on)],
    )
    first = rig.send("go")
    until(lambda: Run.objects.filter(pk=first.run_id, waiting_on="children", user_turn_count=2).exists())
    second = rig.wait(rig.send("what time is it?", busy="queue").run_id)
    assert second.answer == "It is noon."
    request = texts(script.requests_of("main")[3])
    assert "Alpha." in request and "what time" in request, "the run before had not read the result"
    waited = rig.wait(first.run_id)
    assert (waited.run.status, waited.answer, waited.texts[-2:]) == (RunStatus.COMPLETED, "", ["I wait for both. ", ""])
    assert (child("b").status, child("b").is_on_its_own) == ("running", True)
    check()
    go_on.set()
    assert report_run(first.session_id).answer == "Alpha and Beta."
    assert Run.objects.filter(parent=None).count() == 3
    check()


def test_a_question_of_a_child_on_its_own_is_answered_by_the_next_message(rig: EngineRig) -> None:
    team(
        rig,
        [launch(background=True), Reply(("I look into it.",)), Reply(("It is blue.",))],
        a=[calls("ask_user", question="Which colour?"), Reply(("Blue.",))],
    )
    accepted = rig.send("go")
    assert rig.wait(accepted.run_id).answer == "I look into it."
    until(lambda: child().waiting_on == "input")
    assert rig.send("blue").run_id == accepted.run_id
    assert report_run(accepted.session_id).answer == "It is blue."
    check()


def test_the_deadline_of_a_child_on_its_own_counts_on(idle: EngineRig) -> None:
    idle.agent(Reply(), tool_profile="teams")
    accepted = idle.send("go")
    runs.start_child(runs.NewChild(UUID(int=7), accepted.run_id, "a", child_spec()))
    answer(accepted.run_id)
    Run.objects.filter(workstream="a").update(alarm_at=PAST, deadline_at=PAST)
    deadline_sweep.sweep()
    assert (child().status, child().is_on_its_own) == ("timed_out", True)
    report_runs.sweep()
    [started] = started_runs()
    answer(started.pk)
    check()


def test_a_child_ends_with_a_run_that_has_adopted_it_and_fails(idle: EngineRig) -> None:
    idle.agent(Reply(), tool_profile="teams")
    accepted = idle.send("go")
    runs.start_child(runs.NewChild(UUID(int=7), accepted.run_id, "a", child_spec()))
    answer(accepted.run_id)
    second = idle.send("next")
    claim = lease.claim(uuid4(), second.run_id)
    assert claim and child().listener_id == second.run_id
    assert runs.cancel_run(second.run_id)
    assert child().cancel_requested_at, "its owner is slow"
    writes.decide_and_apply(claim, replace(claim.snapshot, cancel_requested=True))
    assert (child().status, child().error_code, child().is_on_its_own) == ("cancelled", "parent_ended", False)
    check()


def test_no_run_of_another_person_adopts_a_child(idle: EngineRig) -> None:
    idle_with_report(idle)
    other = idle.send("mine?").run_id
    Run.objects.filter(pk=other).update(actor="sender:Telegram:77")
    answer(other)
    assert child().is_on_its_own
    report_runs.sweep()
    [started] = started_runs()
    assert started.actor == child().actor
    answer(started.pk)
    check()


def test_a_sender_who_may_no_longer_write_is_not_told(idle: EngineRig) -> None:
    accepted, _ = idle_with_report(idle)
    actor = "sender:Webhook/crm:u-1"
    Run.objects.update(actor=actor)
    Session.objects.update(channel="Webhook", account_id="crm", sender_id="u-1", owner=None)
    account = ChannelAccount.objects.create(channel="webhook", account_id="crm", access="allow_list")
    now = timezone.now()
    InboundMessage.objects.create(
        account=account,
        session_id=accepted.session_id,
        sender_id="u-1",
        chat_id="u-1",
        text="go",
        sent_at=now,
        received_at=now,
    )
    report_runs.sweep()
    assert started_runs() == [] and not child().starts_run
    Run.objects.filter(workstream="a").update(starts_run=True)
    ChannelAccount.objects.update(allowed_senders=["u-1"])
    report_runs.sweep()
    assert [run.actor for run in started_runs()] == [actor]
    answer(started_runs()[0].pk, "It is done.")
    assert [delivery.text for delivery in Delivery.objects.filter(run__kind="report")] == ["It is done."]


def test_a_run_that_a_message_interrupts_does_not_leave_its_children_for_it(
    rig: EngineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a worker gets it, or the process dies, after the message is stored and before the run is cancelled."""
    team(rig, [launch(), calls("wait_workstreams"), Reply(("Never.",))], a=[Reply(("Al", "pha."), hangs=True)])
    first = rig.send("go")
    until(lambda: Run.objects.filter(pk=first.run_id, waiting_on="children").exists())
    monkeypatch.setattr("sessions_app.conversation.receive_message._interrupt_earlier", lambda accepted, policy: None)
    second = rig.send("stop that", busy="interrupt")
    runs.nudge_run(first.run_id)
    assert rig.wait(first.run_id).run.status is RunStatus.CANCELLED
    until(lambda: child().ended_at)
    assert (child().error_code, child().is_on_its_own) == ("parent_ended", False)
    rig.wait(second.run_id)
    check()
