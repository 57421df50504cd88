"""Background work of the audit log, beside the engine of a runs worker: seal, send anchors, verify once a day."""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from audit_app.chain import anchors, sealer, verification
from audit_app.chain.verification import Verifier
from audit_app.hot_queries import SEALED_AT_ONCE
from audit_app.kernel import single_holder
from audit_app.kernel.database import in_db
from audit_app.kernel.ids import new_id
from audit_app.kernel.outage import outages
from audit_app.models import AuditSeal

logger = logging.getLogger(__name__)

_PAUSE_SECONDS, _PAUSE_AFTER_FAILURE_SECONDS = 1.0, 5.0
_EVERY = timedelta(hours=24)
_LOOK_SECONDS = 600.0


async def run() -> None:
    """Seal committed entries each second until cancelled. Anchors and verification never delay it for long."""
    schedule, sender, is_checked = DailyVerification(), anchors.Sender(), False
    while True:
        pause = _PAUSE_SECONDS
        try:
            if not is_checked:
                await in_db(_log_lost_end)
                is_checked = True
            if await in_db(sealer.seal_next) == SEALED_AT_ONCE:
                continue
            await in_db(schedule.step)
            await sender.step()
        except Exception as error:
            pause = _PAUSE_AFTER_FAILURE_SECONDS
            outages.failed(logger, error, f"the background work of the audit log failed; retrying in {pause:.0f} s")
        await asyncio.sleep(pause)


def _log_lost_end() -> None:
    if problem := verification.find_lost_end():
        logger.error("the end of the audit log, and other rows of that time, may be lost: %s See doctor.", problem)


class DailyVerification:
    """A verification of the whole log each day, a part of it a step, by one process at a time.

    Its place is kept in this process only: if the process ends, another one begins again.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: monotonic seconds."""
        self._clock = clock
        self._next_look = float("-inf")
        self._token = str(new_id())
        self._verifier: Verifier | None = None

    def step(self) -> None:
        """Verify the next part of the log if a pass is due or under way."""
        if self._verifier is None:
            if self._clock() < self._next_look:
                return
            self._next_look = self._clock() + _LOOK_SECONDS
            if not self._is_due():
                return
        if not single_holder.is_held("audit:verify", self._token):
            self._verifier = None
            return
        self._verifier = self._verifier or Verifier()
        if self._verifier.step():
            return
        report, self._verifier = self._verifier.report, None
        report.record()
        if report.broken:
            logger.error("the audit log is broken, first: %s", report.faults[0].detail)

    @staticmethod
    def _is_due() -> bool:
        last = verification.last_result(full=True)
        if last is not None:
            return last.at < datetime.now(UTC) - _EVERY
        return AuditSeal.objects.exists()
