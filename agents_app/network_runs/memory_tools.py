"""`shared_memory_read` and `shared_memory_write`: memory of a network, of a tree of runs, or of a session."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents_app.models import Run
from agents_app.network_runs.shared_spaces import network_of
from agents_app.networks.outcomes import AttemptKey
from agents_app.runs import network_step
from agents_app.workstreams.base import WorkstreamTool
from audit_app.kernel.database import in_db
from tools_app.parameters import integer, parameters, text
from tools_app.policy.scope import resolve
from tools_app.storage import shared_memory
from tools_app.storage.shared_memory import Shared, Space
from tools_app.types import Effect, Reads, Risk, ToolContext, ToolError, ToolSpec

_LONGEST_WAIT_SECONDS = 60
_SPACE = {
    "enum": ["network", "run", "session"],
    "description": "Who shares it: the tasks of the network (the default in one), a run with its workstreams (the "
    "default elsewhere), or all runs of the session.",
}
_KEY = shared_memory.MAX_KEY_CHARACTERS


@dataclass(frozen=True)
class Access:
    """The shared memory of a run. writer: the run's name there.

    patterns: keys that it may use, the same in every space; None for all.
    """

    space: Space
    writer: str
    patterns: tuple[str, ...] | None

    def check(self, key: str) -> None:
        """Raise ToolError unless the run may use this key."""
        if not self.allows(key):
            allowed = ", ".join(self.patterns or ()) or "none"
            raise ToolError(f"This task may not use the key {key!r} of the shared memory. Its keys: {allowed}.")

    def allows(self, key: str) -> bool:
        return self.patterns is None or any(shared_memory.matches(key, pattern) for pattern in self.patterns)


def access_of(run_id: UUID, wanted: str = "") -> Access:
    """Return the shared memory of a run. wanted: network, run or session. Raises ToolError. Reads only."""
    run = Run.objects.select_related("agent").filter(pk=run_id).first()
    if run is None:
        raise ToolError("The run was deleted.")
    writer = f"{run.agent.agent_id}/{run.workstream}" if run.workstream else run.agent.agent_id
    task, network = network_of(run)
    patterns = _patterns(task, network) if task is not None and network is not None else None
    if wanted == "session":
        return Access(Space("session", run.conversation_id), writer, patterns)
    if network is not None and wanted != "run":
        return Access(Space("network", network.pk), writer, patterns)
    if wanted == "network":
        raise ToolError("This run is not part of a network.")
    return Access(Space("run", run.root_id or run.pk), writer, patterns)


def _patterns(task: Run, network: Run) -> tuple[str, ...] | None:
    definition = network_step.read(network.options["network"]["definition"])
    declared = definition.flat()[AttemptKey.parse(task.workstream).task]
    return resolve(declared.memory, definition.memory)


class SharedMemoryRead(WorkstreamTool):
    """Reads values, and waits for one to change."""

    spec = ToolSpec(
        name="shared_memory_read",
        description="Read what the agents that work with you have stored under keys, or wait for it.",
        parameters=parameters(
            "key",
            key=text("Or a pattern, such as `research.*`.", minLength=1, maxLength=_KEY),
            space=_SPACE,
            wait_seconds=integer("Wait so long for a value with a higher version.", 0, _LONGEST_WAIT_SECONDS),
            after_version=integer("The version that you know. Default 0.", 0),
        ),
        effect=Effect.READ,
        risk=Risk.LOW,
        timeout_seconds=_LONGEST_WAIT_SECONDS + 15,
        reads=Reads.STORED,
        sends=(),
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"values": [{"key", "value", "version", "writer"}]}: of keys that the run may use."""
        if not arguments.get("wait_seconds"):
            return await super().run(arguments, context)
        access = await in_db(access_of, context.run_id, arguments.get("space", ""))
        seconds, after = arguments["wait_seconds"], arguments.get("after_version", 0)
        return _result(access, await shared_memory.wait(access.space, arguments["key"], seconds=seconds, after=after))

    def act(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        access = access_of(context.run_id, arguments.get("space", ""))
        return _result(access, shared_memory.find(access.space, arguments["key"]))


class SharedMemoryWrite(WorkstreamTool):
    """Stores a value, or deletes it."""

    spec = ToolSpec(
        name="shared_memory_write",
        description="Store a text, such as JSON, under a key for the agents that work with you. Empty deletes it.",
        parameters=parameters(
            "key",
            "value",
            key=text("", minLength=1, maxLength=_KEY, pattern=r"\S"),
            value=text("", maxLength=shared_memory.MAX_VALUE_BYTES),
            space=_SPACE,
            expected_version=integer("Refuse if it has another one; 0: only if there is none.", 0),
        ),
        effect=Effect.KEYED,  # by its own key: storing the same again changes nothing
        risk=Risk.LOW,
        timeout_seconds=15,
        reads=Reads.NOTHING,
        sends=(),
    )

    def act(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"key", "version"}: 0 for a deleted value."""
        access, key = access_of(context.run_id, arguments.get("space", "")), arguments["key"]
        access.check(key)
        if not arguments["value"]:
            shared_memory.delete(access.space, key)
            return {"key": key, "version": 0}
        expected = arguments.get("expected_version")
        stored = shared_memory.write(access.space, key, arguments["value"], writer=access.writer, expected=expected)
        return {"key": key, "version": stored.version}


def _result(access: Access, values: Iterable[Shared]) -> dict[str, Any]:
    return {"values": [_shown(value) for value in values if access.allows(value.key)], "origins": []}


def _shown(value: Shared) -> dict[str, Any]:
    return {"key": value.key, "value": value.value, "version": value.version, "writer": value.writer}
