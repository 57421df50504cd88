"""Nudges: Celery tasks sent by name, after commit, that carry an id alone; and the killing of tasks.

A lost nudge is repeated by a sweeper. No call waits for a broker that hangs.
"""

import contextvars
import json
import logging
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any
from uuid import uuid4

from celery import current_app
from django.conf import settings
from kombu import Connection, pools
from redis.exceptions import RedisError

from audit_app.kernel import context, valkey
from audit_app.kernel.after_commit import after_commit
from audit_app.kernel.circuit_breaker import Breaker

logger = logging.getLogger(__name__)

# Do not wait longer to send a nudge: the sweeper repeats it.
_ANSWER_SECONDS = 2

_breaker = Breaker()
# The parts of a task's message that are the same for all nudges.
_NOTHING_FOLLOWS = dict.fromkeys(("callbacks", "errbacks", "chain", "chord"))
_HEADERS: dict[str, Any] = {
    **dict.fromkeys(("shadow", "eta", "expires", "group", "group_index", "parent_id", "stamped_headers")),
    "lang": "py",
    "retries": 0,
    "timelimit": [None, None],
    "kwargsrepr": "{}",
    "origin": "nudge",
    "ignore_result": True,
    "replaced_task_nesting": 0,
    "stamps": {},
}


def nudge(
    task_name: str, *args: str, queue: str, task_id: str | None = None, delay_seconds: float = 0.0, **options: Any
) -> None:
    """Send the task once the current transaction commits (at once outside of one).

    task_name: as registered, e.g. `agents.advance_run`.
    args: ids as text.
    delay_seconds: time from the commit to the sending. The calling process waits, because a worker checks Celery's
        countdowns only every one to three seconds.
    options: Celery's apply_async options.

    Never raises for a broker that is down: the row is authoritative, and a sweeper repeats the nudge.
    """
    if delay_seconds > 0:
        after_commit(_send_later, delay_seconds, task_name, args, queue=queue, task_id=task_id, **options)
    else:
        after_commit(send, task_name, args, queue=queue, task_id=task_id, **options)


@contextmanager
def none_sent() -> Iterator[None]:
    """Send neither nudges nor hints within. For a command that knows that nothing listens; sweepers find the rows."""
    with _breaker.held_open(), valkey.breaker.held_open():
        yield


def has_waiting(queue: str) -> bool:
    """Return whether the queue holds tasks that no worker has taken; also True while the broker is away.

    For sweepers: nudges that wait are not lost.
    """
    if _breaker.is_open:
        return True
    try:
        with _breaker.watch():
            waiting: Any = valkey.sync_client().llen(f"{settings.KOMAND_REDIS_PREFIX}{queue}")
    except RedisError:
        return True
    return int(waiting) > 0


def send(task_name: str, args: tuple[str, ...], *, queue: str, task_id: str | None = None, **options: Any) -> None:
    """Send the task now. Used by sweepers; all other callers use `nudge`."""
    if _breaker.is_open:
        return
    try:
        with _breaker.watch():
            if task_id is None and not options:
                _push(task_name, args, queue)
            else:
                _send_task(task_name, args, queue=queue, task_id=task_id, **options)
    except Exception as error:  # the broker may fail in many ways; none of them loses the row
        logger.warning("nudge %s%s was not sent: %s", task_name, args, error)


def _send_task(task_name: str, args: tuple[str, ...], **options: Any) -> None:
    with pools.producers[_broker()].acquire(block=True, timeout=_ANSWER_SECONDS) as producer:
        current_app.send_task(
            task_name,
            args=args,
            headers={"request_id": context.request_id.get()},
            retry=False,
            ignore_result=True,
            producer=producer,
            argsrepr=repr(args),  # for Celery's logs; it would take longer over them
            kwargsrepr="{}",
            **options,
        )


def _push(task_name: str, args: tuple[str, ...], queue: str) -> None:
    """Add to the queue what Celery would add for a task without options, at a quarter of its CPU time.

    Every message waits for it. The form is the one of Celery's task protocol 2, so workers of any release take it.
    """
    task_id = str(uuid4())
    own = {"task": task_name, "id": task_id, "root_id": task_id, "argsrepr": repr(args)}
    properties = {
        "correlation_id": task_id,
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue},
        "priority": 0,
        "body_encoding": "base64",
        "delivery_tag": task_id,
    }
    message = {
        "body": b64encode(json.dumps([args, {}, _NOTHING_FOLLOWS]).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {**_HEADERS, **own, "request_id": context.request_id.get()},
        "properties": properties,
    }
    valkey.post("LPUSH", f"{settings.KOMAND_REDIS_PREFIX}{queue}", json.dumps(message))


def _send_later(seconds: float, *args: Any, **options: Any) -> None:
    timer = threading.Timer(seconds, contextvars.copy_context().run, (send, *args), options)
    timer.daemon = True  # if the process ends first, the sweeper finds the row
    timer.start()


def revoke(task_ids: Sequence[str]) -> None:
    """Make the workers kill these tasks now. Never raises for a broker that is down: their time limits remain."""
    if _breaker.is_open:
        return
    try:
        with _breaker.watch(), pools.connections[_broker()].acquire(block=True, timeout=_ANSWER_SECONDS) as connection:
            current_app.control.revoke(list(task_ids), terminate=True, signal="SIGKILL", connection=connection)
    except Exception as error:  # the calls are over in the database all the same
        logger.warning("tasks %s were not killed: %s", task_ids, error)


class WorkerNudge:
    """A nudge of the workers of one kind that poll: those of this process are called, else another process is nudged.

    task_name: the Celery task that calls `notify_local` there.
    queue: the queue of that task.
    """

    def __init__(self, task_name: str, queue: str) -> None:
        self.task_name = task_name
        self._queue = queue
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, notify: Callable[[], None]) -> None:
        """Call `notify` at each nudge in this process. It must be callable from any thread."""
        self._listeners.append(notify)

    def unsubscribe(self, notify: Callable[[], None]) -> None:
        if notify in self._listeners:
            self._listeners.remove(notify)

    def send_on_commit(self) -> None:
        """After commit, nudge this process's workers, or those of another process if it has none."""
        after_commit(self.send_now)

    def send_now(self) -> None:
        if not self.notify_local():
            send(self.task_name, (), queue=self._queue)

    def notify_local(self) -> bool:
        """Nudge this process's workers. Return whether it has any."""
        for notify in list(self._listeners):
            notify()
        return bool(self._listeners)


@cache
def _broker() -> Connection:
    """Return a connection with short time-outs, unlike the one on which a worker waits for tasks."""
    options = {"socket_timeout": _ANSWER_SECONDS, "retry_on_timeout": False}
    return current_app.connection_for_write(transport_options=options)
