"""The log of the web server's networking layer (Twisted): warnings, errors, and refused connections."""

import logging
import resource
import time
from collections.abc import Callable

from twisted.logger import LogEvent, LogLevel, formatEvent

logger = logging.getLogger(__name__)

# Twisted mentions at level info, for every connection, that the process has no descriptor for it.
_OUT_OF_DESCRIPTORS = ("EMFILE", "ENFILE")
_PAUSE_SECONDS = 10.0


class Observer:
    """An observer of Twisted's log that writes to ours. Connections that are refused for lack of descriptors are logged
    together, at most every ten seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: monotonic seconds."""
        self._clock = clock
        self._quiet_until = float("-inf")

    def __call__(self, event: LogEvent) -> None:
        text = formatEvent(event)
        if any(sign in text for sign in _OUT_OF_DESCRIPTORS):
            self._warn_of_descriptors()
        elif event.get("log_level", LogLevel.info) >= LogLevel.warn:
            failure = event.get("log_failure")
            logger.error("%s", text, exc_info=failure and (failure.type, failure.value, failure.getTracebackObject()))

    def _warn_of_descriptors(self) -> None:
        if self._clock() < self._quiet_until:
            return
        self._quiet_until = self._clock() + _PAUSE_SECONDS
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        logger.error("connections are refused: all %d file descriptors are in use; raise `ulimit -n`", limit)
