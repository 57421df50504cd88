"""The bell of the senders in runs workers, for what was stored in another process."""

from celery import shared_task

from sessions_app.delivery import bell


@shared_task(name=bell.TASK)
def send_deliveries() -> None:
    """Wake this process's sender."""
    bell.wake_here()
