"""The bells of runs workers, for what was stored in another process."""

from celery import shared_task

from sessions_app import bells


@shared_task(name=bells.deliveries.task_name)
def send_deliveries() -> None:
    """Wake this process's sender."""
    bells.deliveries.wake_here()


@shared_task(name=bells.files.task_name)
def fetch_files() -> None:
    """Wake what fetches files in this process."""
    bells.files.wake_here()
