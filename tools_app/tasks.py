"""Celery entry points of tools_app."""

from uuid import UUID

from celery import shared_task

from tools_app import bell, services


@shared_task(name=bell.EXECUTE, ignore_result=True)
def execute(execution_id: str) -> None:
    """Run one execution in this process, under the time limits that came with the nudge."""
    services.execute(UUID(execution_id))
