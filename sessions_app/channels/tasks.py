"""Celery tasks that nudge the workers of this process, for what another process stored."""

from celery import shared_task

from sessions_app.attachments.records import file_nudge
from sessions_app.channels.nudges import deliveries


@shared_task(name=deliveries.task_name)
def send_deliveries() -> None:
    """Nudge this process's sender."""
    deliveries.notify_local()


@shared_task(name=file_nudge.task_name)
def fetch_files() -> None:
    """Nudge this process's file fetcher."""
    file_nudge.notify_local()
