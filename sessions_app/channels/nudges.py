"""Rings for those who work in runs workers on what rows tell to do. A lost ring costs a second."""

from collections.abc import Callable

from django.db import transaction

from audit_app.kernel import nudges

_QUEUE = "runs"


class WorkerNudge:
    """task_name: the Celery task that rings it in another process."""

    def __init__(self, task_name: str) -> None:
        self.task_name = task_name
        self._listeners: list[Callable[[], None]] = []

    def listen(self, ring: Callable[[], None]) -> None:
        """ring: wakes a worker of this process; callable from any thread."""
        self._listeners.append(ring)

    def unsubscribe(self, ring: Callable[[], None]) -> None:
        if ring in self._listeners:
            self._listeners.remove(ring)

    def ring(self) -> None:
        """After commit, wake this process's worker, or one elsewhere if it has none."""
        transaction.on_commit(self.send_now, robust=True)

    def send_now(self) -> None:
        if not self.notify_local():
            nudges.send(self.task_name, (), queue=_QUEUE)

    def notify_local(self) -> bool:
        """Wake this process's workers; False if it has none."""
        for wake in list(self._listeners):
            wake()
        return bool(self._listeners)


deliveries = WorkerNudge("sessions.send_deliveries")
files = WorkerNudge("sessions.fetch_files")
