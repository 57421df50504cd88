"""Pending work of a restored installation: its deadlines count from where they were."""

import json
import re
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import models
from django.db.models import F
from django.utils import timezone

from agents_app import services as runs
from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.runs import children, deadline_sweep
from agents_app.runs.child_messages import PARTS
from audit_app.kernel.liveness import Observer
from audit_app.models import AuditEntry, TimelineHead
from komand.backup import resumed_work
from sessions_app import integrity_checks
from sessions_app.models import Attachment, ChannelAccount, Delivery, Turn
from tests.support.engine import EngineRig, until
from tests.support.team_script import TeamScript
from tools_app import services as tools
from tools_app.models import Approval, InputRequest, ToolExecution
from tools_app.types import ToolCall

pytestmark = pytest.mark.django_db(transaction=True)

WEEK = timedelta(days=7)
BACKUP = "2026-11-29T09:00:00+00:00"
NEAR = timedelta(seconds=60)
APPS = ("agents_app", "tools_app", "sessions_app")


def columns() -> Iterator[tuple[type[models.Model], str]]:
    for app in APPS:
        for model in apps.get_app_config(app).get_models():
            for column in model._meta.fields:
                if isinstance(column, models.DateTimeField):
                    yield model, column.name


def let_a_week_pass() -> None:
    """Move all stored times back."""
    for model, name in columns():
        model._base_manager.update(**{name: F(name) - WEEK})
    TimelineHead.objects.update(ts=F("ts") - int(WEEK.total_seconds()) * 1000)


def calls(*named: tuple[str, dict[str, Any]]) -> Reply:
    return Reply(tool_calls=tuple(ToolCall(f"c{n}", tool, json.dumps(given)) for n, (tool, given) in enumerate(named)))


def launch(*names: str, **arguments: Any) -> list[tuple[str, dict[str, Any]]]:
    return [("launch_workstream", {"id": name, "instruction": f"Do {name}.", **arguments}) for name in names]


def open_tree(rig: EngineRig, go_on: threading.Event) -> Any:
    """Start a root with four workstreams over two levels, and stop the engine. Return the accepted message.

    `works` is in a model call, `decides` waits for an approval, `below` of `asks` for an answer, `rests` is paused.
    """
    rig.agent(Reply(), tool_profile="teams")
    wait = ("wait_workstreams", {})
    ScriptedProvider.scripts["script"] = TeamScript(
        [calls(*launch("works", "decides", "asks", "rests"), wait), Reply(("All four.",))],
        {
            "works": [Reply(("Wor", "ked."), held_by=go_on)],
            "decides": [calls(("schedule", {"action": "create", "name": "x", "prompt": "y", "cron": "0 9 * * *"}))]
            + [Reply(("Decided.",))],
            "asks": [calls(*launch("below"), wait), Reply(("Asked.",))],
            "below": [calls(("ask_user", {"question": "Which?"})), Reply(("Below.",))],
            "rests": [calls(("echo", {"text": "x"})), Reply(("Rested.",))],
        },
    )
    rig.drops = lambda task: task == "tools.execute"  # only `echo` is executed there
    accepted = rig.send("go")
    until(lambda: Run.objects.filter(status="waiting", workstream="rests", waiting_on="tools").exists())
    children.steer_child(accepted.run_id, Run.objects.get(workstream="rests").pk, children.PAUSE)
    tools.execute(ToolExecution.objects.get(tool="echo").pk)
    until(lambda: Run.objects.filter(workstream="rests", waiting_on="parent").exists())
    until(lambda: Approval.objects.exists() and InputRequest.objects.exists())
    until(lambda: Run.objects.filter(workstream="works", status="running").exists())
    until(lambda: Run.objects.filter(workstream__in=("", "asks"), waiting_on="children").count() == 2)
    assert rig.engine
    rig.engine.stop()
    rig.engine, rig.drops = None, lambda task: False
    return accepted


def deadlines() -> dict[str, datetime | None]:
    """Return the times at which the workstreams end, or their pause."""
    return {run.workstream: run.deadline_at or run.alarm_at for run in Run.objects.exclude(parent=None)}


def are_near(found: dict[str, datetime | None], expected: dict[str, datetime | None]) -> bool:
    pairs = [(found[name], expected[name]) for name in expected]
    return all(one and other and abs(one - other) < NEAR for one, other in pairs)


@pytest.mark.parametrize("is_moved", [True, False])
def test_a_tree_goes_on_a_week_later_as_if_no_time_had_passed(rig: EngineRig, tmp_path: Path, is_moved: bool) -> None:
    go_on = threading.Event()
    accepted = open_tree(rig, go_on)
    before, asked = deadlines(), [Approval.objects.get().expires_at, InputRequest.objects.get().expires_at]
    assert len(before) == 5 and None not in before.values()
    let_a_week_pass()
    if is_moved:
        resumed_work.request(tmp_path, BACKUP)
        resumed_work.move_if_requested(tmp_path)
        [entry] = AuditEntry.objects.filter(action="Resumed")
        assert (entry.details["runs"], entry.details["backup"]) == (6, BACKUP)
        assert abs(entry.details["seconds"] - WEEK.total_seconds()) < NEAR.total_seconds()
    for _ in PARTS:  # it also moves what waits for a person
        deadline_sweep.sweep()
    tools.sweep(Observer())
    go_on.set()
    if not is_moved:
        assert {run.error_code for run in Run.objects.exclude(parent=None)} >= {"deadline", "pause_over"}
        assert Approval.objects.get().status == "expired"
        return
    assert are_near(deadlines(), before)
    found = [Approval.objects.get().expires_at, InputRequest.objects.get().expires_at]
    assert all(abs(one - other) < NEAR for one, other in zip(found, asked, strict=True))
    rig.start()
    runs.decide_approval(Approval.objects.get().pk, decision="allow_once", actor=f"user:{rig.owner.pk}")
    rig.send("Red.")
    children.steer_child(accepted.run_id, Run.objects.get(workstream="rests").pk, children.RESUME)
    assert rig.wait(accepted.run_id).answer == "All four."
    assert set(Run.objects.values_list("status", "error_code")) == {("completed", "")}
    assert integrity_checks.find_violations() == []


def test_times_of_everything_that_waits_are_moved_and_once(idle: EngineRig, tmp_path: Path) -> None:
    idle.agent(Reply())
    now, account = timezone.now(), ChannelAccount.objects.create(channel="webhook", account_id="crm")
    run, network, child = (Run.objects.get(pk=idle.send(text).run_id) for text in "abc")
    soon = {"ready_at": now + NEAR, "progress_at": now + NEAR}
    Run.objects.filter(pk=run.pk).update(**soon)
    Run.objects.filter(pk=network.pk).update(options={"network": {}}, started_at=now)
    ended_by_parent = {"terminated_at": now, "alarm_at": now + NEAR, "deadline_at": now}
    Run.objects.filter(pk=child.pk).update(parent_id=run.pk, root_id=run.pk, depth=1, **ended_by_parent)
    common = {"session_id": run.conversation_id, "agent_id": "default", "created_at": now, "timeout_seconds": 60}
    executions = [
        ToolExecution.objects.create(run_id=run.pk, step=0, call_index=number, tool="t", **common, **fields)
        for number, fields in enumerate(
            (
                {"status": "Running", "owner": run.pk, "started_at": now},
                {"client_until": now, "renudge_at": now},
                {"renudge_at": now},
                {"status": "Completed", "started_at": now, "client_until": now},
            )
        )
    ]
    delivered = {"account": account, "ready_at": now, "expires_at": now, "created_at": now}
    deliveries = [
        Delivery.objects.create(dedupe_key=status, status=status, **delivered) for status in ("pending", "sent")
    ]
    turn = Turn.objects.get(run=run)
    file = Attachment.objects.create(turn=turn, kind="file", until=now, album_until=now, created_at=now)
    let_a_week_pass()
    for _ in range(2):  # as if a start died before it forgot the request
        resumed_work.request(tmp_path, BACKUP)
        resumed_work.move_if_requested(tmp_path)
        assert not any(tmp_path.iterdir())
    moved: dict[models.Model, dict[str, Any]] = {
        run: {"ready_at": now + NEAR, "progress_at": now + NEAR, "created_at": None},
        network: {"started_at": now},
        child: {"alarm_at": now + NEAR, "deadline_at": now},
        executions[0]: {"started_at": now},
        executions[1]: {"client_until": now, "renudge_at": now, "created_at": None},
        executions[2]: {"renudge_at": None},
        executions[3]: {"started_at": None, "client_until": None},
        deliveries[0]: {"ready_at": now, "expires_at": now, "created_at": None},
        deliveries[1]: {"ready_at": None, "expires_at": None},
        file: {"until": now, "album_until": now, "created_at": None},
    }
    for row, times in moved.items():
        row.refresh_from_db()
        for name, time in times.items():
            expected = time or now - WEEK
            assert abs(getattr(row, name) - expected) < NEAR / 2, (row, name)
    assert AuditEntry.objects.filter(action="Resumed").count() == 1


def test_nothing_is_moved_unless_a_restore_asks_for_it(idle: EngineRig, tmp_path: Path) -> None:
    idle.agent(Reply())
    idle.send()
    Run.objects.update(alarm_at=timezone.now())
    let_a_week_pass()
    resumed_work.move_if_requested(tmp_path)
    assert Run.objects.get().alarm_at < timezone.now() - timedelta(days=6)


# Names of columns with a time in the future, and those that no pending work waits for.
FUTURE = re.compile(r"(until|expires_at|ready_at|next_at|due_at|deadline_at|alarm_at|renudge_at|progress_at)$")
NOT_MOVED = {
    "ApiKey.expires_at": "a credential",
    "RefreshToken.expires_at": "a credential",
    "McpAuthorization.expires_at": "a credential",
    "McpAuthorization.refreshing_until": "a lease of a process that has ended",
    "McpAuthorizationAttempt.expires_at": "a code",
    "GroupMessage.expires_at": "a trace",
    "ShareLink.expires_at": "a credential",
    "PushNotice.due_at": "a notification that is late is of no use",
    "PushNotice.expires_at": "a notification that is late is of no use",
    "UserFile.expires_at": "a file that its user keeps for a time",
    "Pairing.expires_at": "a code",
    "SenderLink.expires_at": "a code",
    "Schedule.next_at": "schedules have a rule of their own for times that were missed",
    "ScheduleTick.due_at": "a record",
}
MOVED = {
    *("Run.ready_at", "Run.progress_at", "Run.deadline_at", "Run.alarm_at", "Delivery.ready_at", "Delivery.expires_at"),
    *("ToolExecution.renudge_at", "ToolExecution.client_until", "Approval.expires_at", "InputRequest.expires_at"),
    *("Attachment.until", "Attachment.album_until"),
}


def test_every_time_in_the_future_is_moved_or_has_a_reason_not_to_be() -> None:
    found = {f"{model.__name__}.{name}" for model, name in columns() if FUTURE.search(name)}
    assert found == MOVED | NOT_MOVED.keys()
