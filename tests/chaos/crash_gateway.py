"""Crash points: a whole gateway on one thread, whose processes can be ended between any two of their acts.

A web process, a runs worker, a tools worker and a reaper take turns; nudges wait in a list in place of the broker. Each
write to the database, each COMMIT (before and after it), each live entry, hint, nudge and side effect is a point, found
by passing through it. At a chosen point the process that is running ends: nothing of it happens any more, and what it
had not committed is rolled back.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import connections
from redis.exceptions import ResponseError

from agents_app import hot_queries
from agents_app.costs import tree_budget
from agents_app.runs import engine as engine_module
from agents_app.runs import reaper as reaper_module
from audit_app import stream
from audit_app.event_types import EventType
from audit_app.kernel import database, liveness, nudges, valkey
from audit_app.stream import LiveStream, StreamWriter
from sessions_app.services import NewMessage
from tools_app import conf
from tools_app import services as tools
from tools_app.executions import loop_runner
from tools_app.executions import nudges as nudges_module

_WRITES = ("INSERT", "UPDATE", "DELETE")


class PowerCutError(BaseException):
    """The process ends here. Not an Exception, so that no `except Exception` of the product catches it."""


@dataclass
class Process:
    kind: str
    id: UUID = field(default_factory=uuid4)
    alive: bool = True
    engine: "engine_module.Engine | None" = None
    calls: loop_runner.LoopExecutions | None = None
    runner: asyncio.Runner | None = None


class Gateway:
    """`inside` runs something in a process; `advance` delivers what is in the broker; `sweep` is a reaper's pass.

    points: what was passed since `arm`; cuts: at which of them (by number) the process that passes ends; inbound: the
    sender of the messages, in the present session; on_cut: what else happens then; doubled: each nudge comes twice.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.points: list[str] = []
        self.cuts: frozenset[int] = frozenset()
        self.inbound = NewMessage("WebChat", "default", "alice", "Alice", "")
        self.broker: deque[tuple[str, UUID]] = deque()
        self.on_cut: Callable[[], None] = lambda: None
        self.doubled = False
        self.dead: set[UUID] = set()
        self._running: Process | None = None
        self._processes: dict[str, Process] = {}
        self._instrument(monkeypatch)

    def arm(self, *cuts: int) -> None:
        """Start to count the points; the process ends at these."""
        self.points, self.cuts = [], frozenset(cuts)
        self.broker.clear()

    def point(self, label: str) -> None:
        process = self._running
        if process is None:
            return
        if not process.alive:
            raise PowerCutError
        self.points.append(f"{process.kind}: {label}")
        if len(self.points) - 1 in self.cuts:
            self.end(process)
            self.on_cut()
            raise PowerCutError

    def end(self, process: Process) -> None:
        """Let a process have died."""
        process.alive = False
        self.dead.add(process.id)

    @contextmanager
    def inside(self, kind: str) -> Iterator[Process]:
        """Run the block as the process of that kind; a new one is started if the last one died."""
        process = self._processes.get(kind)
        if process is None or not process.alive:
            process = self._processes[kind] = Process(kind)
        self._running = process
        try:
            yield process
        except PowerCutError:
            pass
        finally:
            self._running = process
            if not process.alive and process.runner:
                process.runner.close()
            self._running = None

    def run_until_stored(self, kind: str, act: Callable[[], Any]) -> Any:
        """Repeat a request in new processes until one answers, as a caller does whose connection breaks."""
        while True:
            with self.inside(kind):
                return act()

    def deliver(self) -> None:
        """Give the oldest nudge to its worker, and run the worker until it is idle."""
        task, subject = self.broker.popleft()
        if task == nudges_module.EXECUTE:
            with self.inside("tools"):
                tools.execute(subject)
            return
        with self.inside("runs") as process:
            self._start_engine(process)
            assert process.engine and process.calls and process.runner
            if task == nudges_module.EXECUTE_HERE:
                process.runner.run(_call(process.calls, subject))
            else:
                process.runner.run(_drive(process.engine, subject))

    def sweep(self) -> None:
        with self.inside("reaper"):
            reaper_module.Reaper().sweep()

    def close(self) -> None:
        for process in self._processes.values():
            if process.runner and process.alive:
                process.runner.close()

    @staticmethod
    def _start_engine(process: Process) -> None:
        if process.engine is None:

            async def start() -> None:
                process.engine = engine_module.Engine(process.id)
                process.engine._loop = _WithoutTimers(process.engine._loop)  # type: ignore[assignment]
                process.calls = loop_runner.LoopExecutions(process.id)

            process.runner = asyncio.Runner()
            process.runner.run(start())

    def _instrument(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # The engine works on this thread and connection, so that its acts have one order.
        for module in (engine_module, loop_runner, database):
            monkeypatch.setattr(module, "in_db", _here)
        monkeypatch.setattr(engine_module, "StreamWriter", lambda client: _InstantWriter(self))
        monkeypatch.setattr(reaper_module, "Observer", lambda: _Verdict(self.dead))
        monkeypatch.setattr(liveness, "start", lambda name: self._running and self._running.id)
        monkeypatch.setattr(nudges, "send", self._send)
        monkeypatch.setattr(nudges_module, "revoke", lambda task_ids: self.point("revoke"))
        append_hint = stream._append_hint

        def cut_or_append(fields: Any) -> Any:
            self.point("hint")
            return append_hint(fields)

        monkeypatch.setattr(stream, "_append_hint", cut_or_append)
        # The sweepers wait for nudges that are still on their way; here none is.
        monkeypatch.setattr(hot_queries, "LOST_NUDGE_SECONDS", 0)
        for query in (hot_queries.LIST_LATE_CLAIMABLE, hot_queries.FIND_MISSED_END):
            monkeypatch.setattr(query, "_compiled", {})
        monkeypatch.setattr(conf, "RENUDGE_SECONDS", 0)
        monkeypatch.setattr(tree_budget, "AGAIN_AFTER", timedelta())
        monkeypatch.setattr(settings, "KOMAND_DRAIN_SECONDS", 0)
        wrapper = connections["default"]
        commit = wrapper.commit
        monkeypatch.setattr(wrapper, "commit", lambda: self._commit(commit))
        monkeypatch.setattr(wrapper, "execute_wrappers", [*wrapper.execute_wrappers, self._see_statement])

    def _see_statement(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        verb, *words = sql.split(maxsplit=3)
        if verb in _WRITES:
            self.point(f"{verb} {next(word for word in words if word not in ('INTO', 'FROM')).strip(chr(34))}")
        return execute(sql, params, many, context)

    def _commit(self, commit: Callable[[], None]) -> None:
        wrapper = connections["default"]
        try:
            self.point("before COMMIT")
        except PowerCutError:
            wrapper.rollback()
            raise
        commit()
        try:
            self.point("after COMMIT")
        except PowerCutError:
            wrapper.run_on_commit = []
            raise

    def _send(self, task: str, args: tuple[str, ...], **options: Any) -> None:
        self.point(f"nudge {task}")
        self.broker.extend([(task, UUID(args[0]))] * (2 if self.doubled else 1))


class _WithoutTimers:
    """The loop of a process that stands still between its turns. A timer would go off in any of them, or in the moment
    in which one ends, and leave work that nobody goes on with: what it is for is left to the sweeper."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, *_: Any) -> None:
        return


async def _here(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call it outside the loop: inside, Django would open another connection."""
    loop = asyncio.get_running_loop()
    asyncio._set_running_loop(None)
    try:
        return function(*args, **kwargs)
    finally:
        asyncio._set_running_loop(loop)


async def _drive(engine: engine_module.Engine, run_id: UUID) -> None:
    engine.offer(run_id)
    while engine._tasks:
        done, _ = await asyncio.wait(engine._tasks)
        for task in done:
            task.exception()  # a cut has been noted already


async def _call(calls: loop_runner.LoopExecutions, execution_id: UUID) -> None:
    calls._offer(execution_id)
    while calls._work:
        done, _ = await asyncio.wait(calls._work)
        for task in done:
            task.exception()


class _Verdict:
    """An observer that sees deaths at once."""

    def __init__(self, dead: set[UUID]) -> None:
        self._dead = dead

    def dead(self, owners: Any) -> set[UUID]:
        return set(owners) & self._dead


class _InstantStream(LiveStream):
    """A live text whose every piece is an entry of its own, so that their number does not depend on time."""

    def append_text(self, event_type: EventType[Any], step: int, offset: int, text: str) -> None:
        self.append(event_type, {"offset": offset, "text": text}, step=step)


class _InstantWriter(StreamWriter):
    """Sends each entry as it is posted, with the same command as the real one."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(valkey.async_client())
        self._gateway = gateway

    def open(self, run_id: UUID, fence: int, event_type: EventType[Any], payload: Any) -> LiveStream:
        opened = _InstantStream(self, run_id, fence)
        opened.append(event_type, payload, create=True)
        return opened

    def post(self, entry: Any) -> None:
        self._gateway.point(f"append {entry.fields['type']}")
        answer: Any
        try:
            answer = valkey.sync_client().xadd(
                entry.stream.key, {"e": json.dumps(entry.fields)}, id=entry.id, nomkstream=not entry.create
            )
        except ResponseError as error:
            answer = error
        entry.stream.sent(entry, answer)
