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
from agents_app.models import ModelProvider, Run
from agents_app.providers.kinds.scripted import Reply, Script
from agents_app.runs import children, lease
from agents_app.services import DEFAULT_OPTIONS
from agents_app.types import ModelRequest, RunOptions, Usage
from audit_app.kernel.errors import Conflict
from audit_app.kernel.ids import new_id
from sessions_app.attachments import uploads
from sessions_app.models import Session
from sessions_app.services import ReceiveOptions, compact_session, edit_message, receive, select_branch
from tests.chaos.crash_gateway import Gateway
from tests.support.team_script import role_of
from tools_app.executions.approvals import AlreadyDecided
from tools_app.models import Approval, InputRequest, Memory, ToolExecution
from tools_app.storage import memories
from tools_app.types import ToolCall

# The acts of a user before a nudge is delivered: (gateway, session id, the nudge's task, empty when there is none).
Person = Callable[[Gateway, UUID, str], None]


@dataclass(frozen=True)
class Scenario:
    """A scenario.

    replies: by the number of assistant messages in the request; the last one is repeated
    faults: replies that come instead at the first attempt
    ignored: event types whose number may differ, because a cut comes before or after them
    afterwards: acts of a user, each once the session is idle
    schema: JSON Schema of the agent's answers
    fallbacks: models of the scripted provider; a fault of the first makes the next one reply
    agent: fields of the agent
    children: replies of its workstreams or tasks, by name
    network: definition of the network that the messages run; empty for none
    memory: text of a memory of the person, stored before; every request of the first run contains it
    """

    name: str
    replies: tuple[Reply, ...]
    messages: tuple[str, ...] = ("go",)
    faults: dict[int, Reply] = field(default_factory=dict)
    person: Person = lambda gateway, session_id, task: None
    ignored: frozenset[str] = frozenset()
    afterwards: tuple[Callable[[Gateway, UUID], None], ...] = ()
    schema: dict[str, Any] | None = None
    fallbacks: tuple[str, ...] = ()
    agent: dict[str, Any] = field(default_factory=dict)
    children: dict[str, tuple[Reply, ...]] = field(default_factory=dict)
    network: str = ""
    memory: str = ""

    @property
    def run_options(self) -> RunOptions:
        """Return the options of its messages."""
        network = {"name": "net", "version": 1, "definition": self.network, "context": {}}
        return RunOptions(network=network) if self.network else DEFAULT_OPTIONS


class StatefulScript(Script):
    """A script that replies by the content of the request, so that a repeated model call gets the same reply."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario.replies)
        self._children = scenario.children
        self._faults = {} if scenario.fallbacks else dict(scenario.faults)
        # The first model fails at each call: which one replies shows whether the run has kept its fallback.
        self._lasting = scenario.faults.get(0) if scenario.fallbacks else None

    def take(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        if self._lasting is not None and request.model == "play":
            return self._lasting
        turns = sum(message.role == "assistant" for message in request.messages)
        if replies := self._children.get(role_of(request)):
            return replies[min(turns, len(replies) - 1)]
        return self._faults.pop(turns, None) or self.replies[min(turns, len(self.replies) - 1)]


def call(name: str, number: int) -> ToolCall:
    return ToolCall(f"call_{number}", name, json.dumps({"number": number}))


def approve_all(gateway: Gateway, session_id: UUID, task: str) -> None:
    """Approve every request."""
    asked = Approval.objects.filter(execution__session_id=session_id, status="pending")
    for approval_id in asked.values_list("id", flat=True):
        gateway.run_until_stored("web", lambda found=approval_id: _decide(found))


def _decide(approval_id: UUID, decision: str = "allow_once") -> None:
    with suppress(AlreadyDecided):  # by the same user, whose connection broke before the answer
        runs.decide_approval(approval_id, decision=decision, actor="user:7")


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


def compact(gateway: Gateway, session_id: UUID) -> None:
    """Ask for a summary of the earlier messages."""
    session = Session.objects.get(pk=session_id)

    def ask() -> None:
        with suppress(Conflict):  # asked before, by the same user, whose connection broke before the answer
            compact_session(session, actor="user:7")

    gateway.run_until_stored("web", ask)


def launch(name: str, call_id: str = "call_1", **arguments: Any) -> ToolCall:
    given = {"id": name, "instruction": "Do it.", **arguments}
    return ToolCall(call_id, "launch_workstream", json.dumps(given))


def approve_after_the_answer(gateway: Gateway, session_id: UUID, task: str) -> None:
    """Approve every request once the first message is answered."""
    if Run.objects.filter(conversation_id=session_id, ordinal=0, ended_at__isnull=False).exists():
        approve_all(gateway, session_id, task)


def write_again(gateway: Gateway, session_id: UUID) -> None:
    message = replace(gateway.inbound, text="more")
    given: dict[str, Any] = {"owner": person_of(), "idempotency_key": f"{session_id} more"}
    gateway.run_until_stored("web", lambda: receive(message, **given))


def stop_the_tree(gateway: Gateway, session_id: UUID, task: str) -> None:
    """Stop the run once its workstream waits for one of its own, which waits for a person."""
    if (rows := _waiting_tree(session_id)) and rows[""].cancel_requested_at is None:
        gateway.run_until_stored("web", lambda: runs.cancel_run(rows[""].pk))


def stop_the_tree_of_a_dead_worker(gateway: Gateway, session_id: UUID, task: str) -> None:
    """Stop the run as a worker dies that has just taken the workstream `b`, whose call a person has refused."""
    rows = _waiting_tree(session_id)
    if not rows or rows[""].cancel_requested_at is not None:
        return
    approval = Approval.objects.get(run_id=rows["b"].pk)
    gateway.run_until_stored("web", lambda: _decide(approval.id, "deny"))
    while not Run.objects.filter(pk=rows["b"].pk, owner__in=gateway.dead).exists():
        with gateway.inside("runs") as process:
            assert lease.claim(process.id, rows["b"].pk)
            gateway.end(process)
    gateway.run_until_stored("web", lambda: runs.cancel_run(rows[""].pk))


def end_the_workstream(gateway: Gateway, session_id: UUID, task: str) -> None:
    """End the workstream `a` as its parent does, once it waits for its own workstream, which waits for a person."""
    if (rows := _waiting_tree(session_id)) and rows["a"].terminated_at is None:
        gateway.run_until_stored("web", lambda: children.terminate_child(rows[""].pk, rows["a"].pk))


def _waiting_tree(session_id: UUID) -> dict[str, Run]:
    """Return the runs by workstream if all wait, the lowest for a person; else none."""
    rows = {run.workstream: run for run in Run.objects.filter(conversation_id=session_id, owner=None, ended_at=None)}
    waits = {name: run.waiting_on for name, run in rows.items()}
    return rows if waits == {"": "children", "a": "children", "b": "approval"} else {}


def send_a_voice_note(gateway: Gateway, session_id: UUID) -> None:
    """Send an audio file without a text, which the provider of the agent transcribes."""
    ModelProvider.objects.update(transcription_model="ears")
    file = uploads.upload(person_of(), "note.ogg", b"OggSblue")
    message = replace(gateway.inbound, attachments=(file.pk,))
    given: dict[str, Any] = {"owner": person_of(), "idempotency_key": f"{session_id} spoken"}
    gateway.run_until_stored("web", lambda: receive(message, **given))


def change_the_memory(gateway: Gateway, session_id: UUID, task: str) -> None:
    """Change the memory that the run has recalled, once, while tools are about to run."""
    if task == "tools.execute" and not Memory.objects.filter(text=_CHANGED).exists():
        gateway.run_until_stored("web", lambda: remember(_CHANGED))


def remember(text: str) -> None:
    holder = memories.Holder("default", f"user:{person_of().pk}")
    memories.store(holder, memories.Written("dinner", text, new_id(), source="person"))


_CHANGED = "She eats meat now."
WAIT = ToolCall("call_3", "wait_workstreams", "{}")
QUESTION = ToolCall("call_2", "ask_user", json.dumps({"question": "Which colour?"}))
_TOOLS_AND_APPROVAL = (
    Reply(("Let me ", "look. "), tool_calls=(call("peek", 1), call("file", 2)), usage=Usage(10, 5)),
    Reply(("Now ", "for good. "), tool_calls=(call("send", 3), call("pay", 4)), usage=Usage(30, 7)),
    Reply(("All ", "is ", "done."), usage=Usage(50, 3)),
)

_NETWORK = """
name: net
tasks:
- {name: plan}
- {name: pay, depends_on: [plan]}
- {name: look, depends_on: [plan]}
- {name: sum, depends_on: [pay, look], activates: [extra, never]}
- {name: extra, optional: true}
- {name: never, optional: true}
"""

SCENARIOS = (
    Scenario("two tool rounds, an approval and an answer", _TOOLS_AND_APPROVAL, person=approve_all),
    Scenario("two messages in line", (Reply(("An ", "answer.")),), messages=("one", "two")),
    Scenario(
        "a fault of the model that passes",
        (Reply(("Here ", "it is.")),),
        faults={0: Reply(("Half",), error="model_error")},
        ignored=frozenset({"run.waiting"}),
    ),
    Scenario(
        "an answer that its schema rejects and one that it accepts",
        (Reply(("It is ", "17.")), Reply(('{"n": ', "17}"))),
        schema={"type": "object", "required": ["n"]},
    ),
    Scenario(
        "a fault of the model that a fallback answers",
        (
            Reply(("Let me look. ",), tool_calls=(call("file", 1),), usage=Usage(10, 5)),
            Reply(("It is done.",), usage=Usage(20, 4)),
        ),
        faults={0: Reply(("Half",), error="model_auth")},
        fallbacks=("play-2",),
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
    Scenario(
        "a conversation that is too long is summarised",
        (Reply(("An ", "answer."), usage=Usage(9, 2)),),
        messages=("word " * 900, "two"),
        agent={"max_context_tokens": 1600, "enabled_tools": []},
    ),
    Scenario(
        "two workstreams, one with an approval and one that is interactive",
        (
            Reply(
                tool_calls=(
                    ToolCall("call_1", "launch_workstream", json.dumps({"id": "a", "instruction": "Pay."})),
                    ToolCall(
                        "call_2",
                        "launch_workstream",
                        json.dumps({"id": "b", "instruction": "Be ready.", "interactive": True}),
                    ),
                ),
                usage=Usage(10, 5),
            ),
            Reply(tool_calls=(WAIT,), usage=Usage(20, 5)),
            Reply(tool_calls=(ToolCall("call_4", "terminate_workstream", json.dumps({"workstream": "b"})),)),
            Reply(("All ", "done.")),
        ),
        person=approve_all,
        ignored=frozenset({"run.waiting"}),
        children={
            "a": (Reply(("I pay. ",), tool_calls=(call("pay", 1),), usage=Usage(7, 2)), Reply(("It is ", "paid."))),
            "b": (Reply(("I am ", "ready."), usage=Usage(5, 2)),),
        },
    ),
    Scenario(
        "a workstream that has one of its own is told to end",
        (Reply(tool_calls=(launch("a"),), usage=Usage(10, 5)), Reply(tool_calls=(WAIT,)), Reply(("All ", "done."))),
        person=end_the_workstream,
        ignored=frozenset({"run.waiting"}),
        children={
            "a": (
                Reply(("I begin. ",), tool_calls=(launch("b"),)),
                Reply(tool_calls=(WAIT,)),
                Reply(("What I ", "have.")),
            ),
            "b": (Reply(("I pay. ",), tool_calls=(call("pay", 1),), usage=Usage(7, 2)),),
        },
    ),
    Scenario(
        "a tree of workstreams is stopped",
        (Reply(tool_calls=(launch("a"),), usage=Usage(10, 5)), Reply(tool_calls=(WAIT,)), Reply(("Never.",))),
        person=stop_the_tree,
        ignored=frozenset({"run.waiting"}),
        children={
            "a": (Reply(("I begin. ",), tool_calls=(launch("b"),)), Reply(tool_calls=(WAIT,)), Reply(("Never.",))),
            "b": (Reply(("I pay. ",), tool_calls=(call("pay", 1),), usage=Usage(7, 2)),),
        },
    ),
    Scenario(
        "a tree of workstreams is stopped while a dead worker holds a part of it",
        (Reply(tool_calls=(launch("a"),), usage=Usage(10, 5)), Reply(tool_calls=(WAIT,)), Reply(("Never.",))),
        person=stop_the_tree_of_a_dead_worker,
        ignored=frozenset({"run.waiting"}),
        children={
            "a": (Reply(("I begin. ",), tool_calls=(launch("b"),)), Reply(tool_calls=(WAIT,)), Reply(("Never.",))),
            "b": (Reply(("I pay. ",), tool_calls=(call("pay", 1),), usage=Usage(7, 2)),),
        },
    ),
    Scenario(
        "a workstream in the background ends after the answer, with no run to get its result",
        (
            Reply(tool_calls=(launch("a", background=True),), usage=Usage(10, 5)),
            Reply(("It is ", "begun.")),
            Reply(("It is ", "paid.")),
        ),
        person=approve_after_the_answer,
        ignored=frozenset({"run.waiting"}),
        # Without usage: the sum of the tree at the answer depends on how far it is by then.
        children={"a": (Reply(("I pay. ",), tool_calls=(call("pay", 1),)), Reply(("Paid.",)))},
    ),
    Scenario(
        "a later message addresses an interactive workstream",
        (
            Reply(tool_calls=(launch("a", interactive=True),)),
            Reply(tool_calls=(WAIT,)),
            Reply(("It is ", "ready.")),
            Reply(
                tool_calls=(
                    ToolCall("call_5", "message_workstream", json.dumps({"workstream": "a", "message": "And now?"})),
                )
            ),
            Reply(tool_calls=(WAIT,)),
            Reply(tool_calls=(ToolCall("call_6", "terminate_workstream", json.dumps({"workstream": "a"})),)),
            Reply(("All ", "done.")),
        ),
        afterwards=(write_again,),
        ignored=frozenset({"run.waiting"}),
        children={"a": (Reply(("I am ", "ready.")), Reply(("Here ", "it is.")))},
    ),
    Scenario(
        "two workstreams that share a budget of one model call",
        (Reply(tool_calls=(launch("a", budget_tokens=3000),)), Reply(tool_calls=(WAIT,)), Reply(("All ", "done."))),
        ignored=frozenset({"run.waiting", "workstream.progressed"}),
        children={
            "a": (
                Reply(("I begin. ",), tool_calls=(launch("b"), launch("c", "call_2")), usage=Usage(7, 2)),
                Reply(tool_calls=(WAIT,), usage=Usage(7, 2)),
                Reply(("Both ", "did."), usage=Usage(9, 2)),
            ),
            "b": (Reply(("One.",), usage=Usage(5, 1)),),
            "c": (Reply(tool_calls=(call("peek", 1),), usage=Usage(5, 1)), Reply(("Two.",), usage=Usage(6, 1))),
        },
    ),
    Scenario(
        "a network of five tasks, one with an approval",
        (Reply(("Nobody asks this.",)),),
        person=approve_all,
        network=_NETWORK,
        children={
            "plan": (Reply(("A plan.",)),),
            "pay": (Reply(tool_calls=(call("pay", 1),)), Reply(("Paid.",))),
            "look": (Reply(("Seen.",)),),  # no tool: what one task reads decides whether the other needs an approval
            "sum": (Reply(('{"activate": ["extra"]}',)),),
            "extra": (Reply(("All ", "done.")),),
        },
    ),
    Scenario("a person sends a voice note", (Reply(("An ", "answer.")),), afterwards=(send_a_voice_note,)),
    Scenario(
        "a batch of two calls, one of which fails",
        (
            Reply(
                tool_calls=(ToolCall("call_1", "batch", json.dumps({"tool": "file", "items": [{}, {"fails": True}]})),),
                usage=Usage(10, 5),
            ),
            Reply(("One ", "failed."), usage=Usage(20, 3)),
        ),
    ),
    Scenario(
        "a memory is recalled and changed while the run works",
        (Reply(tool_calls=(call("peek", 1),)), Reply(("No ", "meat."))),
        messages=("dinner?",),
        person=change_the_memory,
        memory="She is vegetarian.",
    ),
    Scenario(
        "a person asks for a summary", (Reply(("An ", "answer.")),), messages=("one", "two"), afterwards=(compact,)
    ),
)


def person_of(username: str = "alice") -> User:
    return User.objects.get_or_create(username=username)[0]
