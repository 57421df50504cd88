"""Scenarios for the crash tests: the messages, the model's replies, and the acts of a user.

A scenario is data, so that a new kind of step is one more entry here and is cut at every point of its own.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from agents_app import services as runs
from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply, Script
from agents_app.types import ModelRequest, Usage
from sessions_app.models import Session
from sessions_app.services import ReceiveOptions, edit_message, receive, select_branch
from tests.chaos.crash_gateway import Gateway
from tools_app.executions.approvals import AlreadyDecided
from tools_app.models import Approval, InputRequest, ToolExecution
from tools_app.types import AsyncTool, Effect, Risk, Tool, ToolCall, ToolContext, ToolSpec

# The acts of a user before a nudge is delivered: (gateway, session id, the nudge's task, empty when there is none).
Person = Callable[[Gateway, UUID, str], None]


@dataclass(frozen=True)
class Scenario:
    """A scenario.

    replies: by the number of assistant messages in the request; the last one is repeated
    faults: replies that come instead at the first attempt
    ignored: event types whose number may differ, because a cut comes before or after them
    afterwards: acts of a user, each once the session is idle
    """

    name: str
    replies: tuple[Reply, ...]
    messages: tuple[str, ...] = ("go",)
    faults: dict[int, Reply] = field(default_factory=dict)
    person: Person = lambda gateway, session_id, task: None
    ignored: frozenset[str] = frozenset()
    afterwards: tuple[Callable[[Gateway, UUID], None], ...] = ()


class StatefulScript(Script):
    """A script that replies by the content of the request, so that a repeated model call gets the same reply."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario.replies)
        self._faults = dict(scenario.faults)

    def take(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        turns = sum(message.role == "assistant" for message in request.messages)
        return self._faults.pop(turns, None) or self.replies[min(turns, len(self.replies) - 1)]


@dataclass
class Ledger:
    """The effects of tools outside the database, which no rollback undoes."""

    lines: list[tuple[str, str]] = field(default_factory=list)

    def count(self, tool: str) -> int:
        return sum(1 for name, _ in self.lines if name == tool)

    def keys(self, tool: str) -> set[str]:
        return {key for name, key in self.lines if name == tool}


class Deed(Tool):
    """A tool whose effects are counted."""

    def __init__(self, name: str, effect: Effect, risk: Risk, gateway: Gateway, ledger: Ledger) -> None:
        self.spec = ToolSpec(name, f"Does a {name}.", {"type": "object"}, effect, risk)
        self._gateway = gateway
        self._ledger = ledger

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        self._gateway.point(f"before the effect of {self.spec.name}")
        self._ledger.lines.append((self.spec.name, context.effect_key))
        self._gateway.point(f"after the effect of {self.spec.name}")
        return {"done": self.spec.name}


class LoopDeed(AsyncTool):
    """The same on the event loop of a runs worker."""

    def __init__(self, name: str, effect: Effect, gateway: Gateway, ledger: Ledger) -> None:
        self._deed = Deed(name, effect, Risk.LOW, gateway, ledger)
        self.spec = self._deed.spec

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        return self._deed.run(arguments, context)


def deeds(gateway: Gateway, ledger: Ledger) -> list[Deed | LoopDeed]:
    """Return one tool of each effect class, one that needs approval, and two on the loop."""
    loop = [LoopDeed("look", Effect.READ, gateway, ledger), LoopDeed("mail", Effect.ONCE, gateway, ledger)]
    kinds = [
        ("peek", Effect.READ, Risk.LOW),
        ("file", Effect.KEYED, Risk.LOW),
        ("send", Effect.ONCE, Risk.LOW),
        ("pay", Effect.ONCE, Risk.HIGH),
    ]
    return [*loop, *(Deed(name, effect, risk, gateway, ledger) for name, effect, risk in kinds)]


def call(name: str, number: int) -> ToolCall:
    return ToolCall(f"call_{number}", name, json.dumps({"number": number}))


def approve_all(gateway: Gateway, session_id: UUID, task: str) -> None:
    """Approve every request."""
    asked = Approval.objects.filter(execution__session_id=session_id, status="pending")
    for approval_id in asked.values_list("id", flat=True):
        gateway.run_until_stored("web", lambda found=approval_id: _approve(found))


def _approve(approval_id: UUID) -> None:
    with suppress(AlreadyDecided):  # by the same user, whose connection broke before the answer
        runs.decide_approval(approval_id, decision="allow_once", actor="user:7")


def stop_at_the_tools(gateway: Gateway, session_id: UUID, task: str) -> None:
    """Stop the run as soon as tools are about to run."""
    waiting = ToolExecution.objects.filter(session_id=session_id, status="Pending").values_list("run_id", flat=True)
    if task == "tools.execute":
        for run_id in set(waiting):
            gateway.run_until_stored("web", lambda found=run_id: runs.cancel_run(found, reason="Stopped."))


def answer_the_question(gateway: Gateway, session_id: UUID, task: str) -> None:
    """Answer a question of the agent."""
    if InputRequest.objects.filter(session_id=session_id, status="pending").exists():
        message = replace(gateway.inbound, text="blue")
        key = f"{message.thread_id} answered"
        gateway.run_until_stored("web", lambda: receive(message, owner=person_of(), idempotency_key=key))


def add_at_the_tools(busy: str) -> Person:
    """Return a user who writes again, once, while tools are about to run."""

    def add(gateway: Gateway, session_id: UUID, task: str) -> None:
        if task == "tools.execute":
            message = replace(gateway.inbound, text="and this")
            key = f"{message.thread_id} added"
            given: dict[str, Any] = {"owner": person_of(), "idempotency_key": key, "options": ReceiveOptions(busy=busy)}
            gateway.run_until_stored("web", lambda: receive(message, **given))

    return add


def edit_the_first_message(gateway: Gateway, session_id: UUID) -> None:
    session = Session.objects.select_related("agent").get(pk=session_id)
    run_id = Run.objects.get(conversation_id=session_id, ordinal=0).id
    given: dict[str, Any] = {"owner": person_of(), "idempotency_key": f"{session_id} edited"}
    gateway.run_until_stored("web", lambda: edit_message(session, run_id, "changed", **given))


def select_the_first_branch(gateway: Gateway, session_id: UUID) -> None:
    session = Session.objects.get(pk=session_id)
    gateway.run_until_stored("web", lambda: select_branch(session, 0))


QUESTION = ToolCall("call_2", "ask_user", json.dumps({"question": "Which colour?"}))
_TOOLS_AND_APPROVAL = (
    Reply(("Let me ", "look. "), tool_calls=(call("peek", 1), call("file", 2)), usage=Usage(10, 5)),
    Reply(("Now ", "for good. "), tool_calls=(call("send", 3), call("pay", 4)), usage=Usage(30, 7)),
    Reply(("All ", "is ", "done."), usage=Usage(50, 3)),
)

SCENARIOS = (
    Scenario("two tool rounds, an approval and an answer", _TOOLS_AND_APPROVAL, person=approve_all),
    Scenario("two messages in line", (Reply(("An ", "answer.")),), messages=("one", "two")),
    Scenario(
        "a fault of the model that passes",
        (Reply(("Here ", "it is.")),),
        faults={0: Reply(("Half",), error="model_error")},
        ignored=frozenset({"run.waiting"}),
    ),
    Scenario("a fault of the model that lasts", (Reply(("Half",), error="model_auth"),)),
    Scenario("a person stops the run at its tools", _TOOLS_AND_APPROVAL, person=stop_at_the_tools),
    Scenario("two calls on the loop", (Reply(tool_calls=(call("look", 1), call("mail", 2))), Reply(("Sent.",)))),
    Scenario(
        "a person steers the run at its tools",
        (Reply(tool_calls=(call("peek", 1), call("send", 2))), Reply(("Both ", "done."))),
        person=add_at_the_tools("steer"),
    ),
    Scenario(
        "a newer message interrupts the run at its tools",
        (Reply(tool_calls=(call("peek", 1), call("send", 2))), Reply(("Only ", "this."))),
        person=add_at_the_tools("interrupt"),
    ),
    Scenario(
        "a person answers a question",
        (Reply(tool_calls=(call("peek", 1), QUESTION)), Reply(("Blue ", "it is."))),
        person=answer_the_question,
    ),
    Scenario(
        "a person edits a message and selects the first branch",
        (Reply(("An ", "answer.")),),
        messages=("one", "two"),
        afterwards=(edit_the_first_message, select_the_first_branch),
    ),
)


def person_of(username: str = "alice") -> User:
    return User.objects.get_or_create(username=username)[0]
