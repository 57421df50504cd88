"""Planned tool calls without a run: caught nudges, and tools defined by tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel import nudges as nudge_module
from tools_app import services
from tools_app.executions import nudges as nudges_module
from tools_app.policy.rules import AgentPolicy
from tools_app.registry import tools
from tools_app.types import Effect, Risk, Tool, ToolCall, ToolSpec


class Nudges(list):
    """Caught nudges as (task, argument, options), oldest first."""

    def of(self, task: str) -> list[str]:
        return [argument for name, argument, _ in self if name == task]


@pytest.fixture
def nudges(monkeypatch) -> Nudges:
    caught = Nudges()
    monkeypatch.setattr(nudge_module, "send", lambda task, args, **options: caught.append((task, args[0], options)))
    return caught


@pytest.fixture
def stopped(monkeypatch) -> list[str]:
    """Return the task ids of the executions that a worker was ordered to kill."""
    caught: list[str] = []
    monkeypatch.setattr(nudges_module, "revoke", caught.extend)
    return caught


@pytest.fixture
def passing(monkeypatch) -> list[NewEvent]:
    """Return the live-only events that were sent."""
    caught: list[NewEvent] = []
    monkeypatch.setattr("tools_app.executions.events.stream.send_passing", caught.append)
    return caught


@pytest.fixture
def process(monkeypatch) -> UUID:
    """Return the id of this process as the owner of executions."""
    process_id = uuid4()
    monkeypatch.setattr("tools_app.executions.runner.liveness.start", lambda name: process_id)
    return process_id


@pytest.fixture
def world(transactional_db, nudges, stopped, passing, process) -> None:
    """Apply all of these fixtures."""


class Act(Tool):
    """A tool that calls a function."""

    def __init__(self, spec: ToolSpec, function: Callable[..., Any]) -> None:
        self.spec = spec
        self._function = function

    def run(self, arguments, context):
        return self._function(arguments, context)


@pytest.fixture
def make_tool() -> Iterator[Callable[..., Act]]:
    with ExitStack() as overrides:

        def make(function, *, effect=Effect.READ, risk=Risk.LOW, timeout_seconds=10, name="act"):
            tool = Act(ToolSpec(name, "Acts.", {"type": "object"}, effect, risk, timeout_seconds), function)
            overrides.enter_context(tools.override(tool))
            return tool

        yield make


@pytest.fixture
def plan():
    """Return a function that plans calls for one step, as the engine does, and returns their views."""

    def plan_calls(*calls, policy=None, run_id=None, session_id=None, step=0, emit=True, **options):
        with transaction.atomic():
            planned = services.plan_executions(
                [ToolCall(f"call_{index}", name, arguments) for index, (name, arguments) in enumerate(calls)],
                services.StepContext(
                    run_id=run_id or uuid4(),
                    session_id=session_id or uuid4(),
                    session_key="WebChat:web:7",
                    agent_id="default",
                    actor="user:7",
                    step=step,
                    on_done="test.done",
                    on_done_queue="runs",
                ),
                policy=policy or AgentPolicy(),
                text_length=12,
                **options,
            )
            if emit:
                audit.emit(planned.events)
        return planned.executions

    return plan_calls
