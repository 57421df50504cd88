"""Logs failures of background passes: a database that is away once for each outage, other errors with a traceback."""

import logging
import threading
import time
from collections.abc import Callable

from audit_app.kernel.database import is_away

logger = logging.getLogger(__name__)


class OutageLog:
    """The log of one process. Safe across threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: monotonic seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._began_at: float | None = None

    def failed(self, owner: logging.Logger, error: Exception, message: str) -> None:
        """Log the failure of a pass that will be repeated.

        owner: the logger of the caller.
        message: what failed.
        """
        if not is_away(error):
            owner.error(message, exc_info=error)
            return
        with self._lock:
            is_first, self._began_at = self._began_at is None, self._began_at or self._clock()
        if is_first:
            logger.warning("the database is away, and everything that needs it waits: %s", str(error).strip())

    def worked(self) -> None:
        """Log the end of an outage, if there was one. Call it after a pass that used the database."""
        if self._began_at is None:
            return
        with self._lock:
            began_at, self._began_at = self._began_at, None
        if began_at is not None:
            logger.warning("the database is back after %.0f s", self._clock() - began_at)


outages = OutageLog()
