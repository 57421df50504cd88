"""The bells of runs workers, for what was stored in another process."""

from celery import shared_task

from sessions_app.channels import nudges


@shared_task(name=nudges.deliveries.task_name)
def send_deliveries() -> None:
    """Wake this process's sender."""
    nudges.deliveries.notify_local()


@shared_task(name=nudges.files.task_name)
def fetch_files() -> None:
    """Wake what fetches files in this process."""
    nudges.files.notify_local()
