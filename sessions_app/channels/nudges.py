"""Nudges of the workers that send deliveries and fetch files. A lost one costs a second: the workers also poll."""

from collections.abc import Callable

from django.db import transaction

from audit_app.kernel import nudges

_QUEUE = "runs"


class WorkerNudge:
    """A nudge of one kind of worker. task_name: the Celery task that delivers it to another process."""

    def __init__(self, task_name: str) -> None:
        self.task_name = task_name
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, notify: Callable[[], None]) -> None:
        """Have `notify` called at each nudge in this process. It must be callable from any thread."""
        self._listeners.append(notify)

    def unsubscribe(self, notify: Callable[[], None]) -> None:
        if notify in self._listeners:
            self._listeners.remove(notify)

    def send_on_commit(self) -> None:
        """After commit, nudge this process's workers, or those of another process if it has none."""
        transaction.on_commit(self.send_now, robust=True)

    def send_now(self) -> None:
        if not self.notify_local():
            nudges.send(self.task_name, (), queue=_QUEUE)

    def notify_local(self) -> bool:
        """Nudge this process's workers. Returns whether it has any."""
        for notify in list(self._listeners):
            notify()
        return bool(self._listeners)


deliveries = WorkerNudge("sessions.send_deliveries")
files = WorkerNudge("sessions.fetch_files")
