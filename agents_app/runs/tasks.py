"""The Celery task of agents_app: it rings the engine's bell in the worker that happens to get it, no more."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from celery import shared_task

from agents_app.runs import worker


def handle_on_receipt(task: Any, app: Any, consumer: Any) -> Callable[..., None]:
    """A strategy (Celery's word for what a worker does with a message): ring where the message is received. Making a
    request of it and passing that to a pool costs several times what a bell is worth."""

    def receive(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any, **_: Any) -> None:
        arguments, _keywords, _embedded = message.payload
        task(*arguments)

    return receive


@shared_task(  # type: ignore[call-overload, untyped-decorator] # its annotations leave Strategy out
    name="agents.advance_run", Strategy="agents_app.runs.tasks:handle_on_receipt"
)
def advance_run(run_id: str) -> None:
    """There may be something to do for this run. Returns at once; the engine's thread claims it."""
    if worker.thread:
        worker.thread.ring(UUID(run_id))
