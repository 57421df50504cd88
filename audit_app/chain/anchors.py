"""Sends an anchor of the newest seal to a place outside of the database, as KOMAND_AUDIT_ANCHOR says."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from logging.handlers import SysLogHandler

from django.conf import settings

from audit_app.chain.hashes import Anchor
from audit_app.kernel import single_holder
from audit_app.kernel.database import in_db
from audit_app.kernel.ids import new_id
from audit_app.models import AuditSeal

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 60.0
_LOCK_SECONDS = 90
_SYSLOG_PORT = 514

# Posts an anchor to a URL. Raises any exception if it may not have arrived. Set by `komand.wiring`.
post: Callable[[str, Anchor], Awaitable[None]] | None = None


def find_problem(target: str) -> str:
    """Return the problem with a value of KOMAND_AUDIT_ANCHOR as one sentence; empty if there is none."""
    kind, _, rest = target.partition(":")
    if not target or kind in ("http", "https") or (kind == "file" and rest.startswith("/")):
        return ""
    if kind == "syslog" and (not rest or (rest.partition(":")[2] or str(_SYSLOG_PORT)).isdecimal()):
        return ""
    return "It must be an http(s) URL, file:/absolute/path, syslog: or syslog:host:port."


class Sender:
    """Sends the newest seal once a minute if it is a new one. One process at a time does so; failures are repeated."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: monotonic seconds."""
        self._clock = clock
        self._next = clock()
        self._sent = 0
        self._token = str(new_id())

    async def step(self) -> None:
        """Send if it is time. Errors are logged."""
        target = str(settings.KOMAND_AUDIT_ANCHOR)
        if not target or self._clock() < self._next:
            return
        self._next = self._clock() + _EVERY_SECONDS
        anchor = await in_db(self._due)
        if anchor is None:
            return
        try:
            await _send(target, anchor)
        except Exception as error:
            logger.error("the anchor of the audit log cannot be sent: %s", error or type(error).__name__)
        else:
            self._sent = anchor.seal

    def _due(self) -> Anchor | None:
        seal = AuditSeal.objects.order_by("-number").first()
        if not single_holder.is_held("audit:anchor", self._token, _LOCK_SECONDS):
            return None
        if seal is None or seal.number == self._sent:
            return None
        return Anchor.of(seal)


async def _send(target: str, anchor: Anchor) -> None:
    kind, _, rest = target.partition(":")
    if kind == "file":
        await asyncio.to_thread(_append, rest, str(anchor))
    elif kind == "syslog":
        await asyncio.to_thread(_log, rest, str(anchor))
    elif post is not None:
        await post(target, anchor)


def _append(path: str, line: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


class _Syslog(SysLogHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in `logging`
        raise


def _log(place: str, line: str) -> None:
    """place: `host:port` (UDP), or empty for the machine's own log."""
    host, _, port = place.partition(":")
    handler = _Syslog((host, int(port or _SYSLOG_PORT)) if host else "/dev/log", facility=SysLogHandler.LOG_AUTHPRIV)
    try:
        handler.emit(logging.LogRecord("komand", logging.INFO, "", 0, f"komand: audit anchor {line}", None, None))
    finally:
        handler.close()
