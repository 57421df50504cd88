"""The emergency stop: active runs end, queued runs wait, new messages are rejected, and it is audited."""

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from agents_app import hot_queries
from agents_app import services as runs
from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs import emergency_stop as emergency_stop_module
from agents_app.runs import lease
from agents_app.types import Message, RunStatus
from audit_app.kernel.errors import NotFound
from audit_app.models import AuditEntry
from sessions_app.models import Turn
from tests.support.approvals import wants_to_launch
from tests.support.engine import EngineRig, until
from tools_app import services
from tools_app.models import ToolExecution
from tools_app.policy import emergency_stop
from tools_app.policy.emergency_stop import Stopped
from tools_app.types import ExecutionStatus, ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database, pytest.mark.usefixtures("launch")]


def test_streamed_text_is_kept_and_the_run_ends(rig: EngineRig) -> None:
    script = rig.agent(Reply(("Half an ", "answer"), hangs=True))
    accepted = rig.send()
    until(lambda: script.requests)
    until(lambda: Run.objects.filter(pk=accepted.run_id, owner__isnull=False).exists())
    runs.stop_agents(reason="it talks too much")
    transcript = rig.wait(accepted.run_id)
    assert (transcript.run.status, transcript.run.error_code) == (RunStatus.CANCELLED, "stopped")
    assert "it talks too much" in transcript.run.error_message
    assert Turn.objects.get(run_id=accepted.run_id, role="assistant").content == transcript.answer
    assert transcript.answer in ("", "Half an ", "Half an answer")
    assert script.cancelled == 1


def test_a_parked_run_ends_and_its_calls_with_it(rig: EngineRig) -> None:
    wants_to_launch(rig)
    accepted = rig.send()
    until(lambda: Run.objects.filter(pk=accepted.run_id, waiting_on="approval", owner=None).exists())
    runs.stop_agents()
    transcript = rig.wait(accepted.run_id)
    assert transcript.run.error_code == "stopped"
    assert [execution.status for execution in transcript.executions] == [ExecutionStatus.CANCELLED]


def test_nothing_is_accepted_and_nothing_is_stored(rig: EngineRig) -> None:
    rig.agent(Reply(("Hi.",)))
    runs.stop_agents(reason="maintenance")
    with pytest.raises(Stopped) as refused:
        rig.send()
    assert (refused.value.code, "maintenance" in refused.value.message) == ("stopped", True)
    assert not Run.objects.exists()
    assert not Turn.objects.exists()


def test_queued_runs_wait_and_go_on_when_it_is_lifted(rig: EngineRig) -> None:
    rig.agent(Reply(("Hi.",)))
    rig.drops = lambda task: True
    accepted = rig.send()
    runs.stop_agents()
    assert not hot_queries.claimable().exists()
    rig.drops = lambda task: False
    assert rig.engine
    rig.engine.nudge(accepted.run_id)
    assert Run.objects.get(pk=accepted.run_id).status == "queued"
    runs.resume_agents()
    assert rig.wait(accepted.run_id).answer == "Hi."


def test_a_run_is_stopped_at_its_step_border(rig: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    wants_to_launch(rig)
    script = rig.agent(Reply(tool_calls=(ToolCall("c1", "echo", '{"text": "x"}'),), pieces=("Wait.",)))
    recorded = lease.load_snapshot

    def stop_first(run: Run, user_turns: tuple[Message, ...]) -> Any:
        snapshot = recorded(run, user_turns)
        emergency_stop.stop(reason="between two steps")
        return snapshot

    monkeypatch.setattr(lease, "load_snapshot", stop_first)
    accepted = rig.send()
    transcript = rig.wait(accepted.run_id)
    assert transcript.run.error_code == "stopped"
    assert len(script.requests) <= 1
    assert not ToolExecution.objects.filter(status="Completed").exists()


def test_a_call_that_was_planned_a_moment_before_is_not_begun(rig: EngineRig) -> None:
    rig.agent(Reply(tool_calls=(ToolCall("c1", "echo", '{"text": "x"}'),)), Reply(("Over.",)))
    rig.drops = lambda task: task == "tools.execute"
    accepted = rig.send()
    row = until(lambda: ToolExecution.objects.filter(run_id=accepted.run_id).first())
    emergency_stop.stop()
    services.execute(row.id)
    row.refresh_from_db()
    assert row.attempts == 0
    emergency_stop_module.end_stopped()
    assert rig.wait(accepted.run_id).run.error_code == "stopped"


def test_one_agent_can_be_stopped_alone(rig: EngineRig) -> None:
    rig.agent(Reply(("Hi.",)))
    other = runs.create_agent(agent_id="other", name="Other", model_id="script", is_shared_with_everyone=True)
    runs.stop_agents("other")
    with pytest.raises(Stopped):
        rig.send(agent_id=other.agent_id)
    assert emergency_stop.why_stopped("default") == ""
    with pytest.raises(NotFound):
        runs.stop_agents("nobody")


def test_who_stopped_and_why_is_on_record(rig: EngineRig, capsys: Any) -> None:
    rig.agent(Reply(("Hi.",)))
    call_command("control", "stop", reason="a leak")
    call_command("control", "status")
    assert "All agents are stopped by an operator: a leak." in capsys.readouterr().out
    call_command("control", "resume")
    assert "All agents are running." in capsys.readouterr().out
    with pytest.raises(CommandError):
        call_command("control", "stop", agent="nobody")
    entries = AuditEntry.objects.filter(action__startswith="Emergency").order_by("id")
    assert [entry.action for entry in entries] == ["EmergencyStop", "EmergencyResume"]
    assert entries[0].actor.startswith("shell:")
    assert entries[0].details == {"scope": "all", "reason": "a leak"}
