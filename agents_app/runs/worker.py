"""The engine in a Celery worker: a thread with an event loop, started and drained with the worker."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from celery import bootsteps

from agents_app.models import ModelProvider
from agents_app.providers import registry
from agents_app.runs import hooks, reaper
from agents_app.runs.engine import Engine
from audit_app.kernel import compile_ahead, liveness, shutdown
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError
from audit_app.kernel.outage import outages
from tools_app.executions import loop_runner

logger = logging.getLogger(__name__)

QUEUE = "runs"
_CHECK_SECONDS = 0.5
_CHORES_END_SECONDS = 3.0  # at least, even if the runs used up the drain's time


class EngineThread:
    """The thread that executes this process's runs."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine", daemon=True)
        self._engine: Engine | None = None
        self._calls: loop_runner.LoopExecutions | None = None
        self._reaping: asyncio.Task[None] | None = None
        self._checks: list[asyncio.Task[None]] = []
        self._chores: list[asyncio.Task[None]] = []

    def start(self) -> None:
        owner = liveness.start("runs")
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(owner), self._loop).result()

    def nudge(self, run_id: UUID) -> None:
        if self._engine:
            self._engine.nudge(run_id)

    def stop(self) -> None:
        """Drain and return when every run waits, has ended or was released."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
        liveness.stop()

    async def _open(self, owner: UUID) -> None:
        await in_db(load_providers)
        await in_db(compile_ahead.compile_all)
        self._engine, self._calls = Engine(owner), loop_runner.open_here(owner)
        self._reaping = asyncio.create_task(reaper.loop(self._engine.nudge))
        self._checks = [
            asyncio.create_task(_repeat("runs", self._engine.look_after)),
            asyncio.create_task(_repeat("turns of users", self._engine.look_after_turns)),
            asyncio.create_task(_repeat("live texts", self._engine.copy_live_text)),
            asyncio.create_task(_repeat("tool executions", self._calls.look_after)),
        ]
        self._chores = [asyncio.create_task(chore()) for chore in hooks.chores]
        self._pulse = asyncio.create_task(liveness.keep_pulse())

    async def _close(self) -> None:
        if self._reaping:
            self._reaping.cancel()
        seconds = shutdown.seconds()
        ends_at = self._loop.time() + seconds
        if self._engine and self._calls:
            await asyncio.gather(self._engine.drain(seconds), self._calls.drain(seconds))
        ending = [*self._checks, *self._chores]  # only now: until here, a run could still be stopped
        for task in ending:
            task.cancel()
        if ending:  # they have the rest of the drain's time: a platform may be slow to accept a message
            await asyncio.wait(ending, timeout=max(ends_at - self._loop.time(), _CHORES_END_SECONDS))
        await registry.aclose_all()
        self._pulse.cancel()


async def _repeat(noun: str, check: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await check()
        except Exception as error:
            outages.failed(logger, error, f"checking the {noun} failed; retrying in {_CHECK_SECONDS} s")
        await asyncio.sleep(_CHECK_SECONDS)


def load_providers() -> None:
    """Import the model SDKs that agents use, so that the first message need not wait for it."""
    kinds = ModelProvider.objects.filter(is_enabled=True, agents__retired_at=None).values_list("kind", flat=True)
    for kind in set(kinds):
        try:
            registry.load(kind)
        except AppError as error:
            logger.warning("a model provider cannot be used: %s", error.message)


thread: EngineThread | None = None


class EngineStep(bootsteps.StartStopStep):
    """The bootstep that starts the engine in workers that consume the `runs` queue."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self.enabled = QUEUE in parent.app.amqp.queues.consume_from

    def start(self, parent: Any) -> None:
        global thread
        thread = EngineThread()
        thread.start()

    def stop(self, parent: Any) -> None:
        if thread:
            thread.stop()
