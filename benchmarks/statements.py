"""Counts the database statements and write transactions of receiving one message and of its run.

A separate program beside a running gateway, on its data folder: it receives messages and drives their runs itself, with
the code of the web process and the runs worker, and counts on its own connections. Prints JSON.
"""

import json
import os
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock
from uuid import UUID

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "komand.settings.worker"
django.setup()

# Only after Django is set up: these modules name models.
from django.contrib.auth.models import User  # noqa: E402
from django.db.backends.signals import connection_created  # noqa: E402

from agents_app.models import Run  # noqa: E402
from agents_app.runs.worker import EngineThread  # noqa: E402
from audit_app.kernel import nudges  # noqa: E402
from sessions_app.services import NewMessage, open_session, receive  # noqa: E402

_MESSAGES = 15  # the median leaves out those during which a periodic task ran
_SECONDS = 20
_SETTLE_SECONDS = 0.05
_MARKS = ("BEGIN", "SAVEPOINT", "RELEASE", "ROLLBACK")


class Counting:
    """Counts by thread: the main thread receives messages, the engine's threads do the rest."""

    def __init__(self) -> None:
        self._main = threading.get_ident()
        self._counts: Counter[str] = Counter()
        connection_created.connect(self._attach)

    def take(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return and reset the counts of the main thread and of the others."""
        counts, self._counts = self._counts, Counter()
        main, others = ({kind: counts[f"{who} {kind}"] for kind in _KINDS} for who in ("main", "other"))
        return main, others

    def _attach(self, connection: Any, **_: Any) -> None:
        if self._see not in connection.execute_wrappers:
            connection.execute_wrappers.append(self._see)
            connection._commit = partial(self._commit, connection._commit)

    def _commit(self, commit: Callable[[], None]) -> None:
        self._counts[f"{self._who()} transactions"] += 1
        commit()

    def _who(self) -> str:
        return "main" if threading.get_ident() == self._main else "other"

    def _see(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.startswith(_MARKS):
            self._counts[f"{self._who()} statements"] += 1
        return execute(sql, params, many, context)


_KINDS = ("statements", "transactions")


def count() -> dict[str, dict[str, float]]:
    """Return medians for `accept` (a message to an existing session) and `run` (one model call, no tools)."""
    counting = Counting()
    user = User.objects.get(username="bench")
    session = open_session(owner=user, title="Counted")
    inbound = NewMessage("WebChat", "default", str(user.pk), "", "[[tokens=20 rate=0]]")
    engine = EngineThread()

    def send(task_name: str, args: tuple[str, ...], **_: Any) -> None:
        engine.nudge(UUID(args[0]))

    seen: list[tuple[dict[str, int], dict[str, int]]] = []
    with mock.patch.object(nudges, "send", send):
        engine.start()
        try:
            for _ in range(_MESSAGES):
                counting.take()
                run_id = receive(inbound, owner=user, session=session).run_id
                accepted, _before = counting.take()
                _wait_until_ended(run_id)
                seen.append((accepted, _sum(_before, counting.take()[1])))
        finally:
            engine.stop()
    return {
        name: {kind: statistics.median(sample[at][kind] for sample in seen) for kind in _KINDS}
        for at, name in enumerate(("accept", "run"))
    }


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {kind: one[kind] + other[kind] for kind in _KINDS}


def _wait_until_ended(run_id: UUID) -> None:
    deadline = time.monotonic() + _SECONDS
    while not Run.objects.filter(pk=run_id, ended_at__isnull=False).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the run has not ended within {_SECONDS} s")
        time.sleep(0.005)
    time.sleep(_SETTLE_SECONDS)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(count()))
