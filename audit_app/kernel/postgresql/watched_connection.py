"""Connections that give up a server which does not answer any more, as while the network loses all packets.

The heartbeat of a process asks the server each second on a connection of its own. If it gets no answer, statements of
the process are not waited for either. While it does, they may take as long as they like.
"""

from collections.abc import Callable, Generator
from typing import Any

import psycopg

_LOOK_SECONDS = 0.1
# Longer than the statement timeout of the heartbeat: a slow server answers with an error before.
_SILENT_LOOKS = 35


class ServerIsSilent(psycopg.OperationalError):
    """The server did not answer in time, and its connection was closed."""

    def __init__(self) -> None:
        super().__init__("the database server does not answer")


class Circuit:
    """Open while the heartbeat of this process does not reach the server. Written by the heartbeat alone."""

    is_open = False


circuit = Circuit()


class WatchedConnection(psycopg.Connection[Any]):
    """A connection whose statements end with ServerIsSilent once the circuit is open."""

    def wait(self, gen: Generator[Any, Any, Any], interval: float = _LOOK_SECONDS, timeout: float | None = None) -> Any:
        try:
            return super().wait(_watch(gen, self.gives_up), interval, timeout)
        except ServerIsSilent:
            self.close()
            raise

    def gives_up(self, looks: int) -> bool:
        """Return whether to wait no longer. looks: how often nothing had come from the server."""
        return circuit.is_open


class HeartbeatConnection(WatchedConnection):
    """The connection of the heartbeat. It counts looks instead of seconds, which pass in a stopped process, too."""

    def gives_up(self, looks: int) -> bool:
        return looks >= _SILENT_LOOKS


def _watch(waiting: Generator[Any, Any, Any], gives_up: Callable[[int], bool]) -> Generator[Any, Any, Any]:
    """Run the driver's generator, which gets 0 at each look at which the socket is not ready."""
    looks = 0
    try:
        wanted = next(waiting)
        while True:
            ready = yield wanted
            looks = 0 if ready else looks + 1
            if looks and gives_up(looks):
                raise ServerIsSilent
            wanted = waiting.send(ready)
    except StopIteration as end:
        return end.value
