"""Celery tasks of tools_app."""

from uuid import UUID

from celery import shared_task

from tools_app import services
from tools_app.executions import loop_runner, nudges


@shared_task(name=nudges.EXECUTE, ignore_result=True)
def execute(execution_id: str) -> None:
    """Run one execution in this process, under the time limits sent with the nudge."""
    services.execute(UUID(execution_id))


@shared_task(name=nudges.EXECUTE_HERE, ignore_result=True)
def execute_here(execution_id: str) -> None:
    """Offer a call to this worker's event loop. Returns at once."""
    loop_runner.nudge(UUID(execution_id))
