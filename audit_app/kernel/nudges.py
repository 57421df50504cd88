"""Ring a Celery task by name, after commit, carrying an id alone, or have it killed. A lost nudge is the sweeper's
business. Whoever rings or kills waits for no broker that hangs."""

import logging
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import transaction
from kombu import Connection, pools
from redis.exceptions import RedisError

from audit_app.kernel import context, valkey
from audit_app.kernel.circuit_breaker import Breaker

logger = logging.getLogger(__name__)

# A nudge that cannot be sent at once is not worth waiting for: the sweeper rings again.
_ANSWER_SECONDS = 2
_MOST_WAITING = 1000

_breaker = Breaker()


def nudge(task_name: str, *args: str, queue: str, task_id: str | None = None, **options: Any) -> None:
    """Send the task once the current transaction commits (at once outside of one).

    task_name: as registered, e.g. `agents.advance_run`; args: ids as text; options: Celery's apply_async options.
    Never raises for a broker that is down: the row is the truth and a sweeper rings again.
    """
    transaction.on_commit(partial(send, task_name, args, queue=queue, task_id=task_id, **options), robust=True)


def is_backed_up(queue: str) -> bool:
    """Whether so many bells wait there unheard that one more only takes room; also while the broker is away.

    For sweepers, which repeat theirs each second.
    """
    if _breaker.is_open:
        return True
    try:
        with _breaker.watch():
            waiting: Any = valkey.sync_client().llen(f"{settings.KOMAND_REDIS_PREFIX}{queue}")
    except RedisError:
        return True
    return int(waiting) >= _MOST_WAITING


def send(task_name: str, args: tuple[str, ...], *, queue: str, task_id: str | None = None, **options: Any) -> None:
    """Send now. Used by sweepers; everyone else wants `nudge`."""
    if _breaker.is_open:
        return
    headers = {"request_id": context.request_id.get()}
    try:
        with _breaker.watch(), pools.producers[_broker()].acquire(block=True, timeout=_ANSWER_SECONDS) as producer:
            current_app.send_task(
                task_name,
                args=args,
                queue=queue,
                task_id=task_id,
                headers=headers,
                retry=False,
                ignore_result=True,
                producer=producer,
                **options,
            )
    except Exception as error:  # the broker may fail in many ways; none of them loses the row
        logger.warning("nudge %s%s was not sent: %s", task_name, args, error)


def revoke(task_ids: Sequence[str]) -> None:
    """Have the workers kill these tasks, now. Never raises for a broker that is down: their time limits remain."""
    if _breaker.is_open:
        return
    try:
        with _breaker.watch(), pools.connections[_broker()].acquire(block=True, timeout=_ANSWER_SECONDS) as connection:
            current_app.control.revoke(list(task_ids), terminate=True, signal="SIGKILL", connection=connection)
    except Exception as error:  # nor does any of that keep a call from being over
        logger.warning("tasks %s were not told to stop: %s", task_ids, error)


@cache
def _broker() -> Connection:
    """Where nudges go. Not the connection of a worker that waits for them, which has more time."""
    options = {"socket_timeout": _ANSWER_SECONDS, "retry_on_timeout": False}
    return current_app.connection_for_write(transport_options=options)
