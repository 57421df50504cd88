"""The examples of agents in the documentation, each imported and run to its end."""

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.types import RunTranscript
from sessions_app import integrity_checks
from sessions_app.models import Session
from tests.support.engine import EngineRig, until
from tests.support.examples import EXAMPLES, import_agents
from tests.support.rest import RestCaller, make_session
from tests.support.team_script import TeamScript
from tools_app.storage.artifacts import Writer, write_artifact
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def run(rig: EngineRig, name: str, main: list[Reply], session: Session | None = None, **children: Any) -> RunTranscript:
    """Import the agent of an example and send it a message. children: replies of its workstreams, by their names."""
    rig.agent(Reply())
    [agent] = import_agents(name)
    replies = {child: [_reply(text) for text in texts] for child, texts in children.items()}
    ScriptedProvider.scripts["script"] = TeamScript(main, replies)
    if session:
        Session.objects.filter(pk=session.pk).update(agent=agent)
        session.refresh_from_db()
    accepted = rig.send("Is it worth repairing?", agent_id=agent.agent_id, session=session)
    ended = rig.wait(accepted.run_id, 30)
    assert ended.run.agent_id == agent.agent_id and integrity_checks.find_violations() == []
    return ended


def _reply(given: str | Reply) -> Reply:
    return given if isinstance(given, Reply) else Reply((given,))


def calls(*named: tuple[str, dict[str, Any]]) -> Reply:
    """Return a reply that makes these calls in one step."""
    return Reply(tool_calls=tuple(ToolCall(f"c{n}", tool, json.dumps(given)) for n, (tool, given) in enumerate(named)))


def requests_of(name: str) -> list[Any]:
    script: Any = ScriptedProvider.scripts["script"]
    return list(script.requests_of(name))


def tools_of(name: str) -> set[str]:
    return {tool.name for tool in requests_of(name)[0].tools}


def test_every_example_is_run_by_a_test_and_on_the_page() -> None:
    started = set(re.findall(r'run\(rig, "(\w+)"', Path(__file__).read_text())) | {"analyst"}
    assert {file.stem for file in (EXAMPLES / "agents").iterdir()} == started
    page = (EXAMPLES / "README.md").read_text()
    # Importing an example leaves its bytecode beside it.
    files = [file.relative_to(EXAMPLES) for file in EXAMPLES.rglob("*.*") if file.parent.name != "__pycache__"]
    assert [str(file) for file in files if str(file) not in page and file.name != "README.md"] == []


def test_researcher(rig: EngineRig) -> None:
    names = ("facts", "opinions", "numbers")
    launches = [("launch_workstream", {"id": name, "instruction": f"Find {name}."}) for name in names]
    main = [calls(*launches), calls(("wait_workstreams", {})), Reply(("The report.",))]
    found = {name: [f"Three {name}."] for name in names}
    assert run(rig, "researcher", main, **found).answer == "The report."
    assert {"launch_workstream", "wait_workstreams"} <= tools_of("main")
    assert all("Find facts." in str(request.messages) for request in requests_of("facts"))
    results = "\n".join(message.content for message in requests_of("main")[-1].messages)
    assert all(f"Three {name}." in results for name in names)


def test_round_table(rig: EngineRig) -> None:
    names = ("economist", "engineer", "critic")
    launches = [
        ("launch_workstream", {"id": name, "instruction": "Your position?", "interactive": True}) for name in names
    ]
    asks = [("message_workstream", {"workstream": name, "message": "The others say no."}) for name in names]
    ends = [("terminate_workstream", {"workstream": name}) for name in names]
    wait = calls(("wait_workstreams", {}))
    main = [calls(*launches), wait, calls(*asks), wait, calls(*ends), Reply(("Repair it.",))]
    positions = {name: [f"{name} says yes", f"{name} says maybe"] for name in names}
    assert run(rig, "round_table", main, **positions).answer == "Repair it."
    heard = "\n".join(message.content for message in requests_of("main")[-1].messages)
    assert all(f"{name} says yes" in heard and f"{name} says maybe" in heard for name in names)
    assert all("The others say no." in str(requests_of(name)[-1].messages) for name in names)
    ends_of = Run.objects.filter(kind="workstream").values_list("error_code", flat=True)
    assert list(ends_of) == ["terminated"] * 3


def test_background_researcher(rig: EngineRig) -> None:
    launch = ("launch_workstream", {"id": "find", "instruction": "Is it worth repairing?", "background": True})
    main = [calls(launch), Reply(("I am looking into it.",)), Reply(("Repair it.",))]
    go_on = threading.Event()
    found = {"find": [Reply(("It pays ", "off."), held_by=go_on)]}
    assert run(rig, "background_researcher", main, **found).answer == "I am looking into it."
    go_on.set()
    told = until(lambda: Run.objects.filter(kind="report", ended_at__isnull=False).first())
    assert (told.answer, told.agent.agent_id) == ("Repair it.", "background-researcher")
    assert integrity_checks.find_violations() == []


def test_expert(rig: EngineRig) -> None:
    wait, listed = calls(("wait_workstreams", {})), calls(("list_workstreams", {}))
    launch = ("launch_workstream", {"id": "expert", "instruction": "Is it worth repairing?", "interactive": True})
    main = [listed, calls(launch), wait, Reply(("It says yes.",))]
    for word in ("no", "maybe"):
        ask = ("message_workstream", {"workstream": "expert", "message": f"And if it is {word}?"})
        main += [listed, calls(ask), wait, Reply((f"It says {word}.",))]
    first = run(rig, "expert", main, expert=["yes", "no", "maybe"])
    assert first.answer == "It says yes."
    session = Session.objects.get()
    for word in ("no", "maybe"):
        assert rig.wait(rig.send(word, session=session).run_id).answer == f"It says {word}."
    assert len(requests_of("expert")) == 3 and "yes" in str(requests_of("expert")[-1].messages)
    assert Run.objects.get(workstream="expert").is_on_its_own


def test_panel(rig: EngineRig) -> None:
    names = [f"reader_{number}" for number in range(1, 13)]
    launches = [
        ("launch_workstream", {"id": name, "instruction": f"You are {name}.", "interactive": True}) for name in names
    ]
    main = [calls(*launches), Reply(("The panel is ready.",)), Reply(("Most of them would.",))]
    go_on = threading.Event()
    answers = {name: [Reply(("I am ", f"{name}."), held_by=go_on), f"{name} would."] for name in names}
    assert run(rig, "panel", main, **answers).answer == "The panel is ready."
    go_on.set()
    session, api = Session.objects.get(), RestCaller(rig.owner)
    until(lambda: Run.objects.filter(waiting_on="parent").count() == 12)
    heard = until(lambda: len(Run.objects.filter(kind="report", ended_at__isnull=False)))
    panel = [each["id"] for each in api.get(f"sessions/{session.pk}/workstreams?open=true").data]
    asked = {"runs": panel, "text": "Would you buy it?"}
    for _ in range(2):
        sent = api("POST", "runs/messages", asked, Idempotency_Key="question-1").data
        assert [each["isSent"] for each in sent] == [True] * 12
    until(lambda: Run.objects.filter(waiting_on="parent", answer__endswith="would.").count() == 12)
    until(lambda: not Run.objects.filter(kind="workstream", end_stored=False).exists())
    until(lambda: not Run.objects.filter(parent=None, ended_at=None).exists())
    assert Run.objects.filter(kind="report").count() > heard
    assert all(len(requests_of(name)) == 2 for name in names)
    told = "".join(message.content for request in requests_of("main") for message in request.messages)
    assert all(f"{name} would." in told for name in names)
    assert integrity_checks.find_violations() == []


def test_planner(rig: EngineRig) -> None:
    plan = [{"goal": "Compute", "status": "in_progress"}, {"goal": "Compare"}]
    done = [{"id": 1, "goal": "Compute", "status": "completed"}, {"id": 2, "goal": "Compare", "status": "skipped"}]
    main = [
        calls(("update_plan", {"tasks": plan})),
        calls(("calculator", {"expression": "17*23"}), ("report_progress", {"text": "Computed", "percent": 50})),
        calls(("update_plan", {"tasks": done, "comment": "One price is enough."})),
        Reply(("391.",)),
    ]
    ended = run(rig, "planner", main)
    assert ended.answer == "391." and tools_of("main") == {"calculator", "report_progress", "update_plan", "web_fetch"}
    shown = RestCaller(rig.owner).get(f"runs/{ended.run.id}").data
    assert [(task["id"], task["status"]) for task in shown["plan"]["tasks"]] == [(1, "completed"), (2, "skipped")]
    assert (shown["plan"]["comment"], shown["progress"]["percent"]) == ("One price is enough.", 50)


def test_batch(rig: EngineRig) -> None:
    session = make_session(rig.owner)
    for name in "ab":
        write_artifact(Writer(session.pk), f"files/{name}.txt", f"This is {name}.".encode())
    items = [{"path": f"files/{name}.txt"} for name in "abc"]
    main = [calls(("read_artifact", {})), calls(("batch", {"tool": "read_artifact", "items": items})), Reply(("Two.",))]
    ended = run(rig, "batch", main, session)
    assert ended.answer == "Two."
    read = requests_of("main")[-1].messages[-1].content
    assert "This is a." in read and "This is b." in read
    [shown] = RestCaller(rig.owner).get(f"runs/{ended.run.id}").data["batches"]
    assert (shown["total"], shown["done"], shown["failed"]) == (3, 3, 1)
