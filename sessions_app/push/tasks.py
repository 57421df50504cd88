"""The Celery task that nudges this process's sender of notices, for what another process stored."""

from celery import shared_task

from sessions_app.push.notices import nudge


@shared_task(name=nudge.task_name)
def send_notices() -> None:
    """Nudge this process's sender."""
    nudge.notify_local()
