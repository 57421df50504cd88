"""Rings for those who work in runs workers on what rows tell to do. A lost ring costs a second."""

from collections.abc import Callable

from django.db import transaction

from audit_app.kernel import nudges

_QUEUE = "runs"


class Bell:
    """task_name: the Celery task that rings it in another process."""

    def __init__(self, task_name: str) -> None:
        self.task_name = task_name
        self._listeners: list[Callable[[], None]] = []

    def listen(self, ring: Callable[[], None]) -> None:
        """ring: wakes a worker of this process; callable from any thread."""
        self._listeners.append(ring)

    def unlisten(self, ring: Callable[[], None]) -> None:
        if ring in self._listeners:
            self._listeners.remove(ring)

    def ring(self) -> None:
        """After commit, wake this process's worker, or one elsewhere if it has none."""
        transaction.on_commit(self.ring_now, robust=True)

    def ring_now(self) -> None:
        if not self.wake_here():
            nudges.send(self.task_name, (), queue=_QUEUE)

    def wake_here(self) -> bool:
        """Wake this process's workers; False if it has none."""
        for wake in list(self._listeners):
            wake()
        return bool(self._listeners)


deliveries = Bell("sessions.send_deliveries")
files = Bell("sessions.fetch_files")
