"""Random faults: of processes, the broker, the database, the model, the platform and connections."""

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
from tests.chaos.live_faults_support import Installation
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
    """`something` causes one fault, chosen by weight; `heal` ends the faults that still last.

    viewers: those whose connections may be dropped; read at each fault
    postgres: the server of the installation; None on SQLite
    """

    def __init__(
        self, host: Installation, telegram: FakeTelegram, viewers: Sequence[Watching], postgres: PostgresServer | None
    ) -> None:
        self._host = host
        self._telegram = telegram
        self._viewers = viewers
        self._postgres = postgres
        self._stopped: set[int] = set()
        self._threads: list[threading.Thread] = []

    def something(self, choose: random.Random) -> str:
        """Cause a fault and return its description."""
        acts = [*self._kills(choose), *self._pauses(choose), *self._stores(choose), *self._outside(choose)]
        [(_, name, act)] = choose.choices(acts, weights=[weight for weight, _, _ in acts])
        with suppress(OSError, redis.exceptions.RedisError):
            act()
        return name

    def heal(self) -> None:
        for pid in list(self._stopped):
            self._continue(pid)
        for thread in self._threads:
            thread.join(60)
        self._host.model.clear_script()
        self._telegram.faults.clear()

    def _kills(self, choose: random.Random) -> list[tuple[int, str, Act]]:
        host, index = self._host, choose.randrange(9)
        return [
            (4, "kill runs", lambda: host.strike("runs", index=index)),
            (2, "kill web", lambda: host.strike("web")),
            (2, "kill tools", lambda: host.strike("tools")),
            (3, "kill tool", lambda: host.strike("tool", index=index)),
            (3, "restart runs", lambda: host.strike("runs", signal.SIGTERM, index)),
            (1, "restart web", lambda: host.strike("web", signal.SIGTERM)),
            (1, "restart tools", lambda: host.strike("tools", signal.SIGTERM)),
            (1, "kill everything", host.komand.restart),
            (1, "restart everything", lambda: host.komand.restart(signal.SIGTERM)),
            (2, "replace everything", lambda: host.komand.process.send_signal(signal.SIGUSR1)),
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
            (2, "kill valkey", lambda: self._host.strike("valkey")),
            (2, "flush valkey", self._host.empty_valkey),
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
            (5, f"model: {model_fault}", lambda: self._host.model.script(model_fault)),
            (4, f"platform: {platform_fault.what}", lambda: self._telegram.faults.append(platform_fault)),
        ]

    @staticmethod
    def _drop(viewers: list[Watching]) -> None:
        for viewer in viewers:
            viewer.drop()

    def _stop(self, kind: str, index: int, seconds: float) -> None:
        pid = self._host.strike(kind, signal.SIGSTOP, index)
        self._stopped.add(pid)
        timer = threading.Timer(seconds, self._continue, [pid])
        timer.daemon = True
        timer.start()

    def _continue(self, pid: int) -> None:
        if pid in self._stopped:
            self._stopped.discard(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _hold_database(self, seconds: float) -> None:
        """Hold SQLite's write lock from another connection."""

        def hold() -> None:
            with closing(sqlite3.connect(self._host.sqlite, timeout=30, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                time.sleep(seconds)
                connection.execute("ROLLBACK")

        thread = threading.Thread(target=hold, daemon=True)
        self._threads.append(thread)
        thread.start()
