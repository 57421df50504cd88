"""Robots: agents of a script, a notebook or the Django shell, without rows, queues and workers."""

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agents_app.robots import robot_hooks, robot_setup, sync_loop
from agents_app.robots.conversions import typed, untyped
from agents_app.robots.failures import RobotError
from agents_app.robots.messages import AnyMessage
from agents_app.robots.results import RobotResult
from agents_app.robots.robot_budget import Ledger
from agents_app.robots.robot_bus import RobotMessage
from agents_app.robots.robot_hooks import Hook, HookContext, hooked
from agents_app.robots.robot_memory import Memory
from agents_app.robots.robot_options import RobotOptions
from agents_app.robots.robot_run import Conversation, RobotRun
from agents_app.robots.robot_setup import Levels, Names
from agents_app.robots.sync_loop import run_sync
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.ids import new_id
from tools_app.executions.in_process import Toolbox


@dataclass(frozen=True)
class RobotCall:
    """One call of a robot.

    context: values for its template
    levels: tools and MCP servers for this call, and of its network
    memory: a Memory is used instead of the robot's; a mapping is merged into the one in use, and stays there
    origins: origins of the message, if it contains what others have read outside (see docs/security.md, taint)
    """

    message: str
    context: Mapping[str, Any] = field(default_factory=dict)
    levels: Levels = Levels()
    memory: Memory | Mapping[str, Any] | None = None
    network_memory: Memory | None = None
    hooks: Sequence[Hook] = ()
    network_hooks: Sequence[Hook] = ()
    origins: tuple[str, ...] = ()


class Robot:
    """A robot with its history. It has one run at a time; `copy` makes another one without the history.

    The options are the keywords of `RobotOptions`, and can be changed between runs: `robot.options.model = …`.
    Raises InvalidInput (unknown_template, invalid_template) for a template that cannot be used with its `context`.
    """

    def __init__(self, name: str = "robot", **options: Any) -> None:
        self.options = RobotOptions(name=name, **options)
        self.ledger = Ledger()
        self._session = Conversation(new_id())
        self._memory: Memory | None = None  # of the present run
        self._busy = threading.Lock()
        robot_setup.split_tools(self.options.tools)  # raises for what is no tool
        if (self.options.template or self.options.skills) and not sync_loop.is_own_thread():
            sync_loop.run_sync(in_db(robot_setup.check_template, self.options))
        if self.options.bus:
            self.options.bus.join(self.name, self._receive)

    def __repr__(self) -> str:
        return f"<Robot {self.name}>"

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def memory(self) -> Memory:
        """Return the memory in use: during a run that of its call or its network, else the robot's own."""
        return self._memory or self.options.memory

    @property
    def history(self) -> tuple[AnyMessage, ...]:
        """Return the messages of the completed runs, with their tool calls."""
        return typed(self._session.messages)

    def clear_messages(self) -> None:
        """Forget the history."""
        self._session = Conversation(new_id())

    def replace_messages(self, messages: Sequence[AnyMessage]) -> None:
        """Replace the history, such as by one that `history` returned. The origins of what it has read are kept."""
        self._session.messages = untyped(messages)

    def copy(self) -> "Robot":
        """Return a robot with the same options, memory and budgets, and without the history."""
        made = copy.copy(self)
        made.options = replace(self.options)
        made._session, made._busy, made._memory = Conversation(new_id()), threading.Lock(), None
        return made

    def run(
        self,
        message: str,
        *,
        tools: Names = "inherit",
        mcp: Names = "inherit",
        memory: Memory | Mapping[str, Any] | None = None,
        hooks: Sequence[Hook] = (),
        **context: Any,
    ) -> RobotResult:
        """Return the answer to a message. context: values for the template. Raises RobotError, InvalidInput."""
        return run_sync(self.acall(RobotCall(message, context, Levels(tools, mcp), memory, hooks=hooks)))

    async def arun(
        self,
        message: str,
        *,
        tools: Names = "inherit",
        mcp: Names = "inherit",
        memory: Memory | Mapping[str, Any] | None = None,
        hooks: Sequence[Hook] = (),
        **context: Any,
    ) -> RobotResult:
        """Do what `run` does, on the event loop of the caller."""
        return await self.acall(RobotCall(message, context, Levels(tools, mcp), memory, hooks=hooks))

    def call(self, call: RobotCall) -> RobotResult:
        """Carry out a call with everything that a network passes on."""
        return run_sync(self.acall(call))

    async def acall(self, call: RobotCall) -> RobotResult:
        """Do what `call` does, on the event loop of the caller."""
        if not self._busy.acquire(blocking=False):
            raise RobotError(f"{self.name} already has a run. Use `copy()` for another at the same time.", code="busy")
        try:
            return await self._run(call)
        finally:
            self._memory = None
            self._busy.release()

    async def _run(self, call: RobotCall) -> RobotResult:
        self._memory = call.memory if isinstance(call.memory, Memory) else call.network_memory or self.options.memory
        if isinstance(call.memory, Mapping):
            self._memory.merge(call.memory)
        hooks = (*robot_hooks.everywhere, *call.network_hooks, *self.options.hooks, *call.hooks)
        setup = await in_db(robot_setup.prepare, self.options, call.levels, call.context)
        robot_setup.bind(setup.local, self)
        try:
            with self._memory.written_by(setup.name):
                context = HookContext(self, call)
                async with hooked(hooks, "run", context):
                    context.result = await self._execute(call, setup, hooks)
                result: RobotResult = context.result
                return result
        finally:
            if setup.is_own_provider:
                await setup.provider.aclose()

    async def _execute(self, call: RobotCall, setup: robot_setup.Setup, hooks: Sequence[Hook]) -> RobotResult:
        if not call.message.strip():
            raise InvalidInput("The message is empty.", code="empty_message")
        readings = self._session.readings
        if call.origins:
            readings.origins += call.origins
        else:
            readings.own_texts.append(call.message)
            readings.letters = 0
        toolbox = Toolbox(
            setup.policy, readings, local=setup.local, actor=self.options.actor, session_id=self._session.id
        )
        return await RobotRun(self, setup, self._session, self.ledger, toolbox, hooks).execute(call.message)

    @property
    def origins(self) -> tuple[str, ...]:
        """Return the origins of what the robot has read from outside."""
        return tuple(dict.fromkeys(self._session.readings.origins))

    def delegate(self, to: "Robot", message: str, **context: Any) -> RobotResult:
        """Return the result of another robot, with this one's name.

        The origins of what this robot has read are sent with the message.
        """
        return replace(to.call(RobotCall(message, context, origins=self.origins)), delegated_by=self.name)

    def send_message(self, to: str, content: Any) -> RobotMessage:
        """Send a message to a robot on the bus. Raises InvalidInput without a bus, or for an unknown robot."""
        if self.options.bus is None:
            raise InvalidInput(f"{self.name} has no bus: pass `bus`.", code="no_bus")
        return self.options.bus.send(self.name, to, content)

    def send_reply(self, to: str, content: Any, in_reply_to: str) -> RobotMessage:
        """Send a reply to the message with this key."""
        if self.options.bus is None:
            raise InvalidInput(f"{self.name} has no bus: pass `bus`.", code="no_bus")
        return self.options.bus.send(self.name, to, content, in_reply_to=in_reply_to)

    def _receive(self, message: RobotMessage) -> None:
        if self.options.on_message:
            with self.memory.written_by(self.name):
                self.options.on_message(message)
