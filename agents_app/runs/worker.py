"""Puts the engine into a Celery worker: one thread with one event loop, started and drained with the worker."""

import asyncio
import logging
import threading
from typing import Any
from uuid import UUID

from celery import bootsteps
from django.conf import settings

from agents_app.models import ModelProvider
from agents_app.providers import registry
from agents_app.runs import hooks, reaper
from agents_app.runs.engine import Engine
from audit_app.kernel import liveness
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError

logger = logging.getLogger(__name__)

QUEUE = "runs"
_LOOK_SECONDS = 0.5
_CHORES_END_SECONDS = 3.0


class EngineThread:
    """The thread that drives this process's runs."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine", daemon=True)
        self._engine: Engine | None = None
        self._chores: list[asyncio.Task[None]] = []
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
        self._engine = Engine(owner)
        self._chores = [asyncio.create_task(reaper.loop()), asyncio.create_task(self._look(self._engine))]
        self._guests = [asyncio.create_task(chore()) for chore in hooks.chores]

    async def _close(self) -> None:
        for chore in self._chores:
            chore.cancel()
        if self._engine:
            await self._engine.drain(settings.KOMAND_DRAIN_SECONDS)
        for guest in self._guests:
            guest.cancel()
        if self._guests:
            await asyncio.wait(self._guests, timeout=_CHORES_END_SECONDS)
        await registry.aclose_all()

    async def _look(self, engine: Engine) -> None:
        while True:
            try:
                await engine.look_after()
            except Exception:
                logger.exception("looking after the runs failed; again in a moment")
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
