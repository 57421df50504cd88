"""Ring a Celery task by name, after commit, carrying an id alone. A lost nudge is the sweeper's business."""

import logging
from functools import partial
from typing import Any

from celery import current_app
from django.db import transaction

from audit_app.kernel import context

logger = logging.getLogger(__name__)


def nudge(task_name: str, *args: str, queue: str, task_id: str | None = None, **options: Any) -> None:
    """Send the task once the current transaction commits (at once outside of one).

    task_name: as registered, e.g. `agents.advance_run`; args: ids as text; options: Celery's apply_async options.
    Never raises for a broker that is down: the row is the truth and a sweeper rings again.
    """
    transaction.on_commit(partial(send, task_name, args, queue=queue, task_id=task_id, **options), robust=True)


def send(task_name: str, args: tuple[str, ...], *, queue: str, task_id: str | None = None, **options: Any) -> None:
    """Send now. Used by sweepers; everyone else wants `nudge`."""
    headers = {"request_id": context.request_id.get()}
    try:
        current_app.send_task(
            task_name,
            args=args,
            queue=queue,
            task_id=task_id,
            headers=headers,
            retry=False,
            ignore_result=True,
            **options,
        )
    except Exception as error:  # the broker may fail in many ways; none of them loses the row
        logger.warning("nudge %s%s was not sent: %s", task_name, args, error)
