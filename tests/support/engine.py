"""A whole gateway in one process: the real engine on its own thread, tools run in threads, no Celery worker.

Nudges are executed directly. A test decides which of them are lost.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, connections

from agents_app import selectors
from agents_app.models import Agent, ModelProvider
from agents_app.providers.kinds.scripted import Reply, Script, ScriptedProvider
from agents_app.runs import engine as engine_module
from agents_app.runs import worker
from agents_app.runs.worker import EngineThread
from agents_app.services import DEFAULT_OPTIONS
from agents_app.types import RunOptions, RunTranscript
from audit_app.kernel import nudges
from audit_app.kernel.database import close_pool
from sessions_app.services import Accepted, NewMessage, ReceiveOptions, receive
from tests.support.rest import make_user
from tools_app import services as tools
from tools_app.executions import loop_runner


class EngineRig:
    """A gateway: `send` a message, `wait` for its run. `drops` returns whether the nudge of a task is lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: User | None = None) -> None:
        self.drops: Callable[[str], bool] = lambda task_name: False
        self.nudges: list[str] = []
        self.owner = owner or make_user("alice")
        self._pool = ThreadPoolExecutor(4)
        self.engine: EngineThread | None = None
        monkeypatch.setattr(nudges, "send", self._send)
        monkeypatch.setattr(settings, "KOMAND_DRAIN_SECONDS", 0)
        # Tests that poll must not reach the rate limit.
        monkeypatch.setattr(settings, "KOMAND_API_LIMIT", 100_000)
        monkeypatch.setattr(settings, "KOMAND_SENDER_LIMIT", 100_000)
        monkeypatch.setattr(settings, "KOMAND_BURST_MS", 0)
        # Work that a stopping engine abandons would keep running in this process, with its connections: on a busy
        # machine it gets more time to end.
        monkeypatch.setattr(engine_module, "_STOPPED_SECONDS", 30)
        monkeypatch.setattr(worker, "_CHORES_END_SECONDS", 30)

    def start(self) -> "EngineRig":
        self.engine = EngineThread()
        self.engine.start()
        return self

    def stop(self) -> None:
        if self.engine:
            self.engine.stop()
            self.engine = None
        self._pool.shutdown()
        close_pool()  # a write that still runs must end before the tables are emptied

    def agent(self, *replies: Reply, **fields: Any) -> Script:
        """Let the default agent answer with these replies. Return the script, which records its requests."""
        provider, _ = ModelProvider.objects.get_or_create(name="scripted", defaults={"kind": "scripted"})
        defaults: dict[str, Any] = {"name": "Assistant", "provider": provider, "model_id": "script"}
        defaults |= {"retry_first_seconds": 0.05, "is_shared_with_everyone": True}
        Agent.objects.update_or_create(agent_id="default", defaults={**defaults, **fields})
        return ScriptedProvider.play("script", *replies)

    def send(self, text: str = "hello", *, busy: str = "", run: RunOptions = DEFAULT_OPTIONS, **given: Any) -> Accepted:
        """Receive a message of the owner. given: further arguments of `receive`."""
        message, options = NewMessage("WebChat", "default", "alice", "Alice", text), ReceiveOptions(busy=busy, run=run)
        return receive(message, owner=self.owner, options=options, **given)

    def wait(self, run_id: UUID, seconds: float = 60) -> RunTranscript:
        """Return the transcript once the run has ended and the conversation has stored the end."""
        return until(lambda: self._ended(run_id), seconds)

    @staticmethod
    def _ended(run_id: UUID) -> RunTranscript | None:
        transcript = selectors.get_transcript(run_id)
        return transcript if transcript.run.status.is_terminal else None

    def _send(self, task_name: str, args: tuple[str, ...], **options: Any) -> None:
        self.nudges.append(task_name)
        if self.drops(task_name):
            return
        if task_name == "agents.advance_run" and self.engine:
            self.engine.nudge(UUID(args[0]))
        elif task_name == "tools.execute_here":
            loop_runner.nudge(UUID(args[0]))
        elif task_name == "tools.execute":
            self._pool.submit(self._execute, UUID(args[0]))

    @staticmethod
    def _execute(execution_id: UUID) -> None:
        try:
            tools.execute(execution_id)
        finally:
            connections.close_all()


def until_a_lock_is_awaited(or_done: Callable[[], bool] = lambda: False, *, by: int = 1) -> None:
    """Wait until that many statements wait for a lock. SQLite has no such state: a writer waits before it reads."""
    if connection.vendor == "postgresql":
        until(lambda: or_done() or _waiting() >= by)


def _waiting() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM pg_locks WHERE NOT granted")
        return int(cursor.fetchone()[0])


def until(look: Callable[[], Any], seconds: float = 60) -> Any:
    """Poll `look` and return its first true value. Raises AssertionError after the time limit."""
    pause = threading.Event()
    deadline = time.monotonic() + seconds
    while not (value := look()):
        assert time.monotonic() < deadline, f"did not happen within {seconds} s"
        pause.wait(0.02)
    return value
