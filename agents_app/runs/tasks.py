"""The Celery task of agents_app. It nudges the engine of the worker that receives it."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from celery import shared_task

from agents_app.runs import worker


def handle_on_receipt(task: Any, app: Any, consumer: Any) -> Callable[..., None]:
    """Return a Celery strategy that runs the task where its message is received.

    Celery's own strategy makes a request and passes it to a pool, which costs several times as much as the task.
    """

    def receive(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any, **_: Any) -> None:
        arguments, _keywords, _embedded = message.payload
        task(*arguments)

    return receive


@shared_task(  # type: ignore[call-overload, untyped-decorator] # its annotations leave Strategy out
    name="agents.advance_run", Strategy="agents_app.runs.tasks:handle_on_receipt"
)
def advance_run(run_id: str) -> None:
    """Nudge the engine to claim this run. Returns at once."""
    if worker.thread:
        worker.thread.nudge(UUID(run_id))
