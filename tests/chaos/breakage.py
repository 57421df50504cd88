"""What a storm may break, and how: processes, the broker, the database, the model, the platform, connections."""

import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any

import redis

from tests.chaos.clients import Watching
from tests.chaos.live_faults_support import Fire
from tests.fakes.http_server import Fault
from tests.fakes.telegram import FakeTelegram
from tests.support.postgres import PostgresServer

_MODEL_FAULTS = ("status=500", "status=429 retry_after=1", "status=503", "cut=5", "badjson=4", "tokens=30 hang=10")
_PLATFORM_FAULTS = (
    Fault("status", 429, retry_after=1),
    Fault("status", 500),
    Fault("drop"),
    Fault("accept_and_drop"),
    Fault("slow", seconds=3.0),
)

Act = Callable[[], Any]


class Breakage:
    """`something` breaks one thing, chosen by weight; `heal` ends what still lasts.

    viewers: whose connections may break, read each time; postgres: the server of the installation, None on SQLite.
    """

    def __init__(
        self, fire: Fire, telegram: FakeTelegram, viewers: Sequence[Watching], postgres: PostgresServer | None
    ) -> None:
        self._fire = fire
        self._telegram = telegram
        self._viewers = viewers
        self._postgres = postgres
        self._stopped: set[int] = set()
        self._threads: list[threading.Thread] = []

    def something(self, choose: random.Random) -> str:
        """Returns what was broken."""
        acts = [*self._kills(choose), *self._pauses(choose), *self._stores(choose), *self._outside(choose)]
        [(_, name, act)] = choose.choices(acts, weights=[weight for weight, _, _ in acts])
        with suppress(OSError, redis.exceptions.RedisError):
            act()
        return name

    def heal(self) -> None:
        for pid in list(self._stopped):
            self._wake(pid)
        for thread in self._threads:
            thread.join(60)
        self._fire.model.clear_script()
        self._telegram.faults.clear()

    def _kills(self, choose: random.Random) -> list[tuple[int, str, Act]]:
        fire, index = self._fire, choose.randrange(9)
        return [
            (4, "kill runs", lambda: fire.strike("runs", index=index)),
            (2, "kill web", lambda: fire.strike("web")),
            (2, "kill tools", lambda: fire.strike("tools")),
            (3, "kill tool", lambda: fire.strike("tool", index=index)),
            (3, "restart runs", lambda: fire.strike("runs", signal.SIGTERM, index)),
            (1, "restart web", lambda: fire.strike("web", signal.SIGTERM)),
            (1, "restart tools", lambda: fire.strike("tools", signal.SIGTERM)),
            (1, "kill everything", fire.komand.restart),
            (1, "restart everything", lambda: fire.komand.restart(signal.SIGTERM)),
            (2, "replace everything", lambda: fire.komand.process.send_signal(signal.SIGUSR1)),
        ]

    def _pauses(self, choose: random.Random) -> list[tuple[int, str, Act]]:
        index, seconds = choose.randrange(9), choose.uniform(1.0, 14.0)
        return [
            (2, f"stop runs for {seconds:.0f} s", lambda: self._stop("runs", index, seconds)),
            (1, f"stop tools for {seconds:.0f} s", lambda: self._stop("tools", index, seconds)),
            (1, f"stop tool for {seconds:.0f} s", lambda: self._stop("tool", index, seconds)),
            (1, f"stop web for {seconds:.0f} s", lambda: self._stop("web", index, seconds)),
            (1, f"stop valkey for {seconds:.0f} s", lambda: self._stop("valkey", index, seconds)),
        ]

    def _stores(self, choose: random.Random) -> list[tuple[int, str, Act]]:
        seconds = choose.uniform(0.0, 8.0)
        acts: list[tuple[int, str, Act]] = [
            (2, "kill valkey", lambda: self._fire.strike("valkey")),
            (2, "flush valkey", self._flush),
        ]
        if self._postgres is None:
            return [*acts, (2, f"hold the database for {seconds:.0f} s", lambda: self._hold_database(seconds))]
        postgres = self._postgres
        return [
            *acts,
            (2, "crash the database", postgres.crash),
            (1, f"end the database for {seconds:.0f} s", lambda: postgres.restart(seconds)),
        ]

    def _outside(self, choose: random.Random) -> list[tuple[int, str, Act]]:
        model_fault, platform_fault = choose.choice(_MODEL_FAULTS), choose.choice(_PLATFORM_FAULTS)
        dropped = [viewer for viewer in self._viewers if choose.random() < 0.5]
        return [
            (4, "drop viewers", lambda: self._drop(dropped)),
            (5, f"model: {model_fault}", lambda: self._fire.model.script(model_fault)),
            (4, f"platform: {platform_fault.what}", lambda: self._telegram.faults.append(platform_fault)),
        ]

    @staticmethod
    def _drop(viewers: list[Watching]) -> None:
        for viewer in viewers:
            viewer.drop()

    def _flush(self) -> None:
        with self._fire.valkey() as client:
            client.flushall()

    def _stop(self, kind: str, index: int, seconds: float) -> None:
        pid = self._fire.strike(kind, signal.SIGSTOP, index)
        self._stopped.add(pid)
        timer = threading.Timer(seconds, self._wake, [pid])
        timer.daemon = True
        timer.start()

    def _wake(self, pid: int) -> None:
        if pid in self._stopped:
            self._stopped.discard(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _hold_database(self, seconds: float) -> None:
        """Somebody else writes, and takes his time."""

        def hold() -> None:
            with closing(sqlite3.connect(self._fire.sqlite, timeout=30, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                time.sleep(seconds)
                connection.execute("ROLLBACK")

        thread = threading.Thread(target=hold, daemon=True)
        self._threads.append(thread)
        thread.start()
