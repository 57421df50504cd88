"""Puts the engine into a Celery worker: one thread with one event loop, started and drained with the worker."""

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
from audit_app import liveness
from audit_app.kernel import shutdown
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError
from tools_app.executions import loop_runner

logger = logging.getLogger(__name__)

QUEUE = "runs"
_LOOK_SECONDS = 0.5
_CHORES_END_SECONDS = 3.0  # at least, however long the runs took


class EngineThread:
    """The thread that drives this process's runs."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine", daemon=True)
        self._engine: Engine | None = None
        self._calls: loop_runner.LoopExecutions | None = None
        self._reaping: asyncio.Task[None] | None = None
        self._looks: list[asyncio.Task[None]] = []
        self._guests: list[asyncio.Task[None]] = []

    def start(self) -> None:
        owner = liveness.start("runs")
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(owner), self._loop).result()

    def ring(self, run_id: UUID) -> None:
        if self._engine:
            self._engine.ring(run_id)

    def stop(self) -> None:
        """Drain: returns when every run rests or was given back."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
        liveness.stop()

    async def _open(self, owner: UUID) -> None:
        await in_db(_load_providers)
        self._engine, self._calls = Engine(owner), loop_runner.open_here(owner)
        self._reaping = asyncio.create_task(reaper.loop(self._engine.ring))
        self._looks = [
            asyncio.create_task(_repeat("the runs", self._engine.look_after)),
            asyncio.create_task(_repeat("the calls", self._calls.look_after)),
        ]
        self._guests = [asyncio.create_task(chore()) for chore in hooks.chores]
        self._pulse = asyncio.create_task(liveness.keep_pulse())

    async def _close(self) -> None:
        if self._reaping:
            self._reaping.cancel()
        seconds = shutdown.seconds()
        ends_at = self._loop.time() + seconds
        if self._engine and self._calls:
            await asyncio.gather(self._engine.drain(seconds), self._calls.drain(seconds))
        ending = [*self._looks, *self._guests]  # only now: what still works can be stopped until its end
        for task in ending:
            task.cancel()
        if ending:  # what the runs left of the time is theirs: a platform may be slow to take a message
            await asyncio.wait(ending, timeout=max(ends_at - self._loop.time(), _CHORES_END_SECONDS))
        await registry.aclose_all()
        self._pulse.cancel()


async def _repeat(what: str, look_after: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await look_after()
        except Exception:
            logger.exception("looking after %s failed; again in a moment", what)
        await asyncio.sleep(_LOOK_SECONDS)


def _load_providers() -> None:
    """Import the model SDKs that agents use now, so that no first message waits for that."""
    kinds = ModelProvider.objects.filter(is_enabled=True, agents__retired_at=None).values_list("kind", flat=True)
    for kind in set(kinds):
        try:
            registry.load(kind)
        except AppError as error:
            logger.warning("a model provider cannot be used: %s", error.message)


thread: EngineThread | None = None


class EngineStep(bootsteps.StartStopStep):
    """Worker bootstep: only a worker that consumes the `runs` queue drives runs."""

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
