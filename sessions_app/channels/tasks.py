"""Celery tasks that nudge the workers of this process, for what another process stored."""

from celery import shared_task

from sessions_app.channels import nudges


@shared_task(name=nudges.deliveries.task_name)
def send_deliveries() -> None:
    """Nudge this process's sender."""
    nudges.deliveries.notify_local()


@shared_task(name=nudges.files.task_name)
def fetch_files() -> None:
    """Nudge this process's file fetcher."""
    nudges.files.notify_local()
