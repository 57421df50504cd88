"""The end of a web process: open requests are answered, viewers connect again, and no connection is reset.

If another web process of this machine runs, it takes all new connections at once. Else this one serves on until the
requests that were open have ended, since new connections would wait for the next process. Each response that begins
meanwhile closes its connection. A listener that is shared keeps its waiting connections for the next process.
"""

import asyncio
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from audit_app.kernel import liveness
from audit_app.kernel.database import in_db
from komand import background

COME_BACK = 4000  # WebSocket close code: this server ends, connect again
FRESH_SECONDS = 0.5  # a client that has connected sends its request within them, or was connected in advance
KEPT_SECONDS = 1.0  # for a kept connection to be used once more, whose response then closes it
# With STOP_SECONDS: less than TimeoutStopSec of komand-web.service.
REQUEST_SECONDS, LATE_SECONDS = 8.0, 2.0
HURRIED_SECONDS = 1.5
STOP_SECONDS = 1.5
_POLL_SECONDS = 0.005
_LOOK_SECONDS = 1.0
_ACCEPTS = 100

Requests = set[Any]


class Shutdown:
    """The shutdown of a `komand.server.WebServer`. is_hurried: by Ctrl-C, when nobody waits for the next process."""

    def __init__(self, server: Any, *, is_hurried: bool) -> None:
        self._server = server
        self._is_hurried = is_hurried

    async def run(self) -> None:
        """Shut down within REQUEST_SECONDS + LATE_SECONDS + STOP_SECONDS; hurried, HURRIED_SECONDS + STOP_SECONDS."""
        opened = self._open_requests()
        if self._is_hurried or await _has_peer():
            self._stop_listening()
            self._hand_over_viewers()
            await self._wait(self._open_requests, HURRIED_SECONDS if self._is_hurried else REQUEST_SECONDS)
        else:
            await self._wait(lambda: opened & self._open_requests(), REQUEST_SECONDS)
            self._stop_listening()
            await self._wait(lambda: self._open_requests() - opened, LATE_SECONDS)
            self._hand_over_viewers()
        for channel in list(self._server.http_factory.idle):
            channel.loseConnection()
        await self._cancel_rest()

    def _hand_over_viewers(self) -> None:
        """Have the viewers connect to another process."""
        for protocol in list(self._server.connections):
            if self._is_socket(protocol) and protocol.state == protocol.STATE_OPEN:
                protocol.serverClose(code=COME_BACK)

    def _stop_listening(self) -> None:
        """Accept no more. The connections that wait at a listener of this process alone would be reset: serve them."""
        port, listener = self._server.port, self._server.listener
        for _ in range(0 if self._server.is_shared else _ACCEPTS):
            if not select.select([listener], [], [], 0)[0]:
                break
            port.doRead()
        port.stopListening()
        listener.close()

    async def _wait(self, open_requests: Callable[[], Requests], seconds: float) -> None:
        """Wait until none of the requests is open, and none is to be expected on an open connection."""
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds:
            if not open_requests() and not self._is_expecting(passed):
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _is_expecting(self, passed: float) -> bool:
        """Return whether a request may soon arrive on a connection that was just accepted, or kept."""
        factory, just_now = self._server.http_factory, time.monotonic() - FRESH_SECONDS
        if any(accepted > just_now for accepted in factory.fresh.values()):
            return True
        return bool(factory.idle) and not self._is_hurried and passed < KEPT_SECONDS

    def _open_requests(self) -> Requests:
        """Return the requests that have begun to arrive and are not answered, or whose applications still run."""
        found = self._server.connections.items()
        return {one for one, details in found if not self._is_socket(one) and _is_open(details)}

    def _is_socket(self, protocol: Any) -> bool:
        return isinstance(protocol, self._server.ws_factory.protocol)

    async def _cancel_rest(self) -> None:
        """Cancel what still runs. A request whose application does not answer that gets a 503."""
        unanswered = self._open_requests()
        found = self._server.connections.values()
        tasks = [details["application_instance"] for details in found if "application_instance" in details]
        for task in tasks:
            task.cancel()
        await asyncio.wait([asyncio.ensure_future(background.stop()), *tasks], timeout=STOP_SECONDS)
        for request in unanswered:
            request.refuse_unanswered()


def _is_open(details: dict[str, Any]) -> bool:
    task = details.get("application_instance")
    return "disconnected" not in details or (task is not None and not task.done())


async def _has_peer() -> bool:
    """Return whether another web process of this machine runs; False while the database is away."""
    try:
        async with asyncio.timeout(_LOOK_SECONDS):
            own, processes = liveness.current(), await in_db(liveness.list_processes)
    except Exception:  # a process that ends must not fail for it
        return False
    host = socket.gethostname()
    return any(one.alive and (one.name, one.host) == ("web", host) and one.id != own for one in processes)
