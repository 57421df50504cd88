"""One tree of runs through every surface: an agent with two workstreams, which ask for an approval and a question.

Each client sees both with the names of who asks, decides and answers in its own protocol if that has a form for it, and
is shown no text of a workstream as the answer.
"""

import json
import threading
from contextlib import suppress
from typing import Any

import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from audit_app import follow
from audit_app.kernel.database import in_db
from sessions_app import integrity_checks
from tests.fakes.telegram import FakeTelegram
from tests.support import tree_clients as clients
from tests.support.conditions import eventually, happens
from tests.support.engine import EngineRig
from tests.support.team_script import TeamScript
from tests.support.tree_clients import QUESTION
from tools_app.models import Approval, InputRequest
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

ANSWER, SECRET = "All is done.", "text of a workstream"
STORE = ("memory_store", {"key": "car", "text": "blue"})


def calls(*named: tuple[str, dict[str, Any]], text: str = "", held_by: threading.Event | None = None) -> Reply:
    made = tuple(ToolCall(f"c{n}", tool, json.dumps(given)) for n, (tool, given) in enumerate(named))
    return Reply((text,) if text else (), tool_calls=made, held_by=held_by)


def launch(workstream: str, name: str) -> tuple[str, dict[str, Any]]:
    return "launch_workstream", {"id": workstream, "name": name, "instruction": f"Do {name}."}


def plant(rig: EngineRig, may_ask: threading.Event) -> None:
    """Let the default agent launch `Decider`, which asks for an approval, and `Asker`, which then asks a question."""
    rig.agent(Reply(), tool_profile="teams")
    ask = calls(("ask_user", {"question": QUESTION}), text=f"{SECRET} 1", held_by=may_ask)
    ScriptedProvider.scripts["script"] = TeamScript(
        [calls(launch("one", "Decider"), launch("two", "Asker"), ("wait_workstreams", {})), Reply((ANSWER,))],
        {
            "Decider": [calls(STORE, text=f"{SECRET} 2"), Reply((f"{SECRET} 3",))],
            "Asker": [ask, Reply((f"{SECRET} 4",))],
        },
    )


CLIENTS: dict[str, type[clients.Client]] = {
    "rest": clients.Client,
    "threads": clients.Threads,
    "completions": clients.Completions,
    "responses": clients.Responses,
    "mcp": clients.Mcp,
    "ag_ui": clients.AgUi,
    "agent_messages": clients.AgentMessages,
    "signalr": clients.Hub,
    "chat page": clients.Page,
    "web chat": clients.Visitor,
    "telegram": clients.Chat,
}


@pytest.mark.parametrize("name", CLIENTS)
async def test_every_client_sees_decides_and_answers_what_workstreams_ask(
    name: str, rig: EngineRig, platform: FakeTelegram, settings: Any
) -> None:
    settings.KOMAND_APPROVERS = "owners"
    may_ask = threading.Event()
    await in_db(plant, rig, may_ask)
    client = await in_db(CLIENTS[name], rig, platform)
    try:
        await client.send("go")
        await eventually(Approval.objects.exists)
        if client.approval:
            await shows(client, client.approval)
        may_ask.set()
        await eventually(InputRequest.objects.exists)
        if client.question:
            await shows(client, QUESTION, client.question)
        await client.approve()
        await client.answer("red")
        root = await eventually(Run.objects.filter(parent=None, ended_at__isnull=False).first)
        assert (root.status, root.answer) == ("completed", ANSWER)
        answer = await happens(lambda: answered(client))
        assert ANSWER in answer and SECRET not in answer
        states = await in_db(lambda: set(Run.objects.values_list("status", flat=True)))
        assert states == {"completed"} and await in_db(Run.objects.count) == 3
        assert await in_db(integrity_checks.find_violations) == []
    finally:
        await client.close()
        with suppress(Exception):
            await follow.current_follower().aclose()


async def shows(client: clients.Client, *marks: str) -> None:
    async def is_shown() -> bool:
        shown = await client.shown()
        return all(mark in shown for mark in marks)

    await happens(is_shown)


async def answered(client: clients.Client) -> str:
    answer = await client.last()
    return answer if ANSWER in answer else ""
