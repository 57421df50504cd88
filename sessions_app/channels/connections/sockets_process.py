"""The side of a runs worker: has the process `sockets` of this host open connections, and takes what arrives."""

import asyncio
import base64
import itertools
import logging
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from sessions_app.channels.connections import wire
from sessions_app.platforms.base import ChannelAdapter
from sessions_app.platforms.link import ConnectionLost, Link, Received
from sessions_app.platforms.messages import Ignored, OfAccount

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 6.0

_Frames = asyncio.Queue[Mapping[str, Any] | None]


class SocketsProcess:
    """This worker's socket to the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wire: wire.Wire | None = None
        self._reading: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._frames: dict[int, _Frames] = {}

    @property
    def is_connected(self) -> bool:
        return self._wire is not None

    async def connect(self) -> bool:
        """Connect to the process unless that is done. Returns False if it does not run."""
        if self._wire is None:
            try:
                self._wire = wire.Wire(*await asyncio.open_unix_connection(self._path))
            except OSError:
                return False
            self._reading = asyncio.create_task(self._read(self._wire))
        return True

    async def aclose(self) -> None:
        """Disconnect. The process ends what this worker has asked for."""
        if self._reading:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def listen(self, adapter: ChannelAdapter, link: Link) -> None:
        """Have the process open the account's connection, and pass on what it reports, until cancelled.

        Raises ConnectionLost, NeedsAttention, CredentialsRefused, and what `link.deliver` raises.
        """
        if self._wire is None:
            raise ConnectionLost("The process sockets is not running.")
        number, frames = next(self._numbers), _Frames()
        self._frames[number], to_process = frames, self._wire
        account, name = wire.dump_account(adapter.account), wire.name_adapter(type(adapter))
        to_process.send("open", number, adapter=name, account=account, cursor=link.cursor)
        try:
            while True:
                frame = await frames.get()
                if frame is None:
                    del self._frames[number]
                    raise ConnectionLost("The process sockets has ended.")
                match frame["kind"]:
                    case "heartbeat":
                        link.heartbeat()
                    case "deliver":
                        await link.deliver([_load_received(one) for one in frame["received"]], frame["cursor"])
                        to_process.send("stored", number)
                    case _:
                        del self._frames[number]
                        raise wire.load_ending(frame)
        finally:
            if self._frames.pop(number, None) is not None:
                to_process.send("close", number)
                await self._wait_for_end(number, frames)

    async def _wait_for_end(self, number: int, frames: _Frames) -> None:
        """Wait until the process has closed the connection: some platforms refuse a second one."""
        self._frames[number] = frames
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                while (frame := await frames.get()) is not None and frame["kind"] != "ended":
                    pass
        except TimeoutError:
            logger.warning("a connection was not closed within %.0f s", _CLOSE_SECONDS)
        finally:
            self._frames.pop(number, None)

    async def _read(self, from_process: wire.Wire) -> None:
        """Hand the frames to the connections that they are about. At the end, each gets None."""
        try:
            async for frame in from_process.frames():
                if frames := self._frames.get(frame["number"]):
                    frames.put_nowait(frame)
        finally:
            self._wire = None
            from_process.close()
            for frames in self._frames.values():
                frames.put_nowait(None)


def _load_received(data: Mapping[str, Any]) -> Received:
    """Return an event with its payload. One that is malformed has no effect, as it would hold up all after it."""
    raw = base64.b64decode(data["raw"])
    try:
        event, value = _check_of(data["type"])(data["event"]), str(data.get("of_account", ""))
        return Received(OfAccount(value, event) if value else event, raw)
    except ValueError as error:  # pydantic's, whose text holds that of the message
        fields = [".".join(map(str, problem["loc"])) for problem in getattr(error, "errors", list)()]
        logger.error("an event of a connection (%s) is malformed and is skipped: %s", data["type"], ", ".join(fields))
        return Received(Ignored("malformed_event"), raw)


@cache
def _check_of(name: str) -> Callable[[Any], Any]:
    """Return the function that makes an event of this type, and raises ValueError if its fields are not as declared.

    The process talks to foreign servers, so what it sends is checked. The library is loaded by the first event: most
    installations receive none this way.
    """
    check: Callable[[Any], Any] = import_module("pydantic").TypeAdapter(wire.EVENT_TYPES[name]).validate_python
    return check
