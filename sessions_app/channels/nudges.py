"""The nudge of the workers that send deliveries, and polling. A lost nudge costs a second: the workers also poll."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from audit_app.kernel.nudges import WorkerNudge
from audit_app.kernel.outage import outages

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0

deliveries = WorkerNudge("sessions.send_deliveries", "runs")


class Poller:
    """Calls a worker's function once a second and when nudged, on the event loop that it is created on."""

    def __init__(self) -> None:
        self._loop, self._nudged = asyncio.get_running_loop(), asyncio.Event()

    def notify(self) -> None:
        """Call the function now. May be called from any thread."""
        with suppress(RuntimeError):  # the loop has just ended
            self._loop.call_soon_threadsafe(self._nudged.set)

    async def run(self, nudge: WorkerNudge, work: Callable[[], Awaitable[None]]) -> None:
        """Call `work` until cancelled. Its errors are logged."""
        nudge.subscribe(self.notify)
        try:
            while True:
                try:
                    await work()
                except Exception as error:
                    outages.failed(logger, error, f"cannot look for work of {nudge.task_name}; retrying")
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_SECONDS):
                        await self._nudged.wait()
                self._nudged.clear()
        finally:
            nudge.unsubscribe(self.notify)
