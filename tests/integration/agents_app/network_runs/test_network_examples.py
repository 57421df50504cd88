"""The examples of networks in the documentation, each run to its end."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from agents_app import services as runs
from agents_app.models import Agent, Run, StoredNetwork
from agents_app.network_runs import library
from agents_app.network_runs.progress import read_progress
from agents_app.networks.outcomes import TaskStatus
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.types import RunTranscript
from audit_app.kernel import context
from sessions_app import integrity_checks
from sessions_app.conversation.network_start import start_network
from sessions_app.models import Schedule, Session
from sessions_app.schedules.starter import Starter
from tests.support.engine import EngineRig, until
from tests.support.examples import EXAMPLES, import_agents
from tests.support.rest import RestCaller, make_session
from tests.support.team_script import TeamScript
from tools_app.models import Approval, Artifact, SharedValue
from tools_app.storage.artifacts import Writer, read_artifact, write_artifact
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]
NETWORKS = EXAMPLES / "networks"


def store(rig: EngineRig, file: str, replies: dict[str, Any]) -> StoredNetwork:
    """Store an example. replies: by the names of attempts, texts, JSON values or lists of replies."""
    rig.agent(Reply())
    texts = {name: [Reply((json.dumps(reply),))] for name, reply in replies.items() if isinstance(reply, dict)}
    texts |= {name: [Reply((reply,))] for name, reply in replies.items() if isinstance(reply, str)}
    texts |= {name: reply for name, reply in replies.items() if isinstance(reply, list)}
    ScriptedProvider.scripts["script"] = TeamScript([Reply(("main",))], texts)
    return library.create((NETWORKS / file).read_text(), Agent.objects.all(), owner_id=rig.owner.pk)


def start(
    rig: EngineRig, file: str, message: str, replies: dict[str, Any], *, session: Session | None = None, **values: Any
) -> Any:
    stored = store(rig, file, replies)
    with context.bind(actor=f"user:{rig.owner.pk}"):
        return start_network(stored, message, owner=rig.owner, context=values, session=session).run_id


def call(tool: str, **arguments: Any) -> Reply:
    return Reply(tool_calls=(ToolCall("1", tool, json.dumps(arguments)),))


def prompt_of(name: str) -> str:
    script: Any = ScriptedProvider.scripts["script"]
    return str(script.requests_of(name)[0].messages[-1].content)


def last_of(name: str) -> str:
    script: Any = ScriptedProvider.scripts["script"]
    return str(script.requests_of(name)[-1].messages[-1].content)


def ended(rig: EngineRig, run_id: Any) -> RunTranscript:
    found = rig.wait(run_id, 30)
    assert integrity_checks.find_violations() == []
    return found


def test_every_example_is_run_here() -> None:
    started = set(re.findall(r'"([a-z_]+\.yaml)"', Path(__file__).read_text()))
    assert {file.name for file in NETWORKS.iterdir()} == started


def test_triage(rig: EngineRig) -> None:
    replies = {"triage": {"activate": ["billing"]}, "billing": "It is corrected.", "reply": "Dear Ada, …"}
    run_id = start(rig, "triage.yaml", "My invoice is wrong", replies)
    assert ended(rig, run_id).answer == "Dear Ada, …"
    assert (
        "a friendly reply" in prompt_of("reply")
        and "Billing: It is corrected.\nTechnical: \n" in prompt_of("reply") + "\n"
    )
    results = read_progress(run_id).results
    assert results["technical"].status is TaskStatus.SKIPPED and results["technical"].reason == "no task activated it"


def test_map_reduce(rig: EngineRig) -> None:
    session, broken = make_session(rig.owner), [Reply(("",))]
    for name in "ac":
        write_artifact(Writer(session.pk), f"files/{name}.txt", f"This is {name}.".encode())
    replies: dict[str, Any] = {
        f"summary[{n}]": [call("read_artifact", path=f"files/{name}.txt"), Reply((name,))]
        for n, name in enumerate("abc")
    }
    replies |= {"summary[1]": broken, "summary[1]~2": broken, "answer": "Both."}
    files = [f"files/{name}.txt" for name in "abc"]
    run_id = start(rig, "map_reduce.yaml", "What is in them?", replies, session=session, files=files)
    assert ended(rig, run_id).answer == "Both."
    assert prompt_of("summary[2]") == "Read the file files/c.txt and summarise it in two sentences."
    assert "This is c." in last_of("summary[2]")
    assert '["a", null, "c"]' in prompt_of("answer")
    assert read_progress(run_id).results["summary"].attempts == 4


def test_approval(rig: EngineRig) -> None:
    replies = {
        "draft": "v1",
        "review": {"good": False, "problem": "too short"},
        "draft#2": "v2",
        "review#2": {"good": True, "problem": ""},
        "publish": [call("write_artifact", path="files/announcement.md", content="v2"), Reply(("Published.",))],
    }
    run_id = start(rig, "approval.yaml", "We moved", replies)
    approval = until(lambda: Approval.objects.first())
    assert not Artifact.objects.exists() and prompt_of("draft#2").endswith("it is not empty: too short\n")
    assert not Run.objects.get(pk=run_id).ended_at
    runs.decide_approval(approval.pk, decision="allow_once", actor=f"user:{rig.owner.pk}")
    assert ended(rig, run_id).answer == "Published."
    assert Artifact.objects.exists()


def test_shared_memory(rig: EngineRig) -> None:
    import_agents("analyst")
    waits = call("shared_memory_read", key="market.customers", wait_seconds=20)
    replies = {
        "demand": [call("shared_memory_write", key="market.customers", value="900"), Reply(("900 customers.",))],
        "costs": [waits, Reply(("20 each.",))],
        "advice": [call("shared_memory_read", key="market.customers"), Reply(("Open it.",))],
    }
    run_id = start(rig, "shared_memory.yaml", "Should we open a shop in Lyon?", replies)
    assert ended(rig, run_id).answer == "Open it."
    assert "900" in last_of("costs") and "analyst/demand" in last_of("costs")
    assert "900" not in last_of("advice"), "its memory is none"
    value = SharedValue.objects.get()
    assert (value.kind, value.owner_id, value.key) == ("network", run_id, "market.customers")
    assert "Costs: 20 each." in prompt_of("advice")


def test_a_scheduled_report(rig: EngineRig) -> None:
    replies = {
        "topic[0]": "A release.",
        "topic[1]": "A price.",
        "write": [call("write_artifact", path="out/report.md", content="# Report"), Reply(("All is well.",))],
    }
    store(rig, "report.yaml", replies)
    body = json.loads((EXAMPLES / "report_schedule.json").read_text())
    caller = RestCaller(rig.owner)
    assert caller.post("cron", body).data["explained"] == "At 08:00 on Monday"
    Schedule.objects.update(next_at=timezone.now() - timedelta(seconds=1))
    Starter().start_part()
    [tick] = until(lambda: caller.get("cron/default/weekly-report").data["history"])  # the engine has a starter, too
    assert tick["status"] == "sent"
    assert ended(rig, UUID(tick["runId"])).answer == "All is well."
    assert prompt_of("topic[1]").startswith("What is new about our competitors?")
    assert "A report for the team meeting." in prompt_of("write") and '"A release."' in prompt_of("write")
    written = Run.objects.get(parent_id=tick["runId"], workstream="write")
    assert read_artifact(written.conversation_id, f"files/{written.pk}/report.md")[1] == b"# Report"
