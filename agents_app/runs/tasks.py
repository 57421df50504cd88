"""The Celery task of agents_app: it rings the engine's bell in the worker that happens to get it, no more."""

from uuid import UUID

from celery import shared_task

from agents_app.runs import worker


@shared_task(name="agents.advance_run")
def advance_run(run_id: str) -> None:
    """There may be something to do for this run. Returns at once; the engine's thread claims it."""
    if worker.thread:
        worker.thread.ring(UUID(run_id))
