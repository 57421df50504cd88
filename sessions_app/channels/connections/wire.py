"""The protocol between a runs worker, which stores events, and the process `sockets`, which receives them.

Frames on a Unix socket: four bytes of length, big-endian, then a JSON object. The runs worker numbers the connections
that it asks for; each frame has the number of its connection, and one of these kinds:

    open       to sockets    adapter, account, cursor: open a connection
    stored     to sockets    the batch that was delivered last is stored
    close      to sockets    end the connection; answered by `ended`
    heartbeat  to the worker the platform has answered something
    deliver    to the worker received, cursor: a batch of events, answered by `stored` before the next one
    ended      to the worker error, message, retry_after_seconds: the connection has ended

Imports no Django: the process `sockets` runs without it.
"""

import asyncio
import base64
import dataclasses
import json
import logging
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from importlib import import_module
from typing import Any, get_args

from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.base import ChannelAdapter
from sessions_app.platforms.link import ConnectionLost, CredentialsRefused, NeedsAttention, Received
from sessions_app.platforms.messages import ChannelEvent, OfAccount

logger = logging.getLogger(__name__)

_LENGTH_BYTES = 4
# A long e-mail with its files, encoded, fits in.
_MOST_BYTES = 256 * 1024 * 1024

# The event within an `OfAccount` is sent in its place, with the value beside it.
EVENT_TYPES = {event.__name__: event for event in get_args(ChannelEvent) if event is not OfAccount}
_ENDINGS = {ending.code: ending for ending in (CredentialsRefused, NeedsAttention, ConnectionLost)}


class Wire:
    """One end of the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, kind: str, number: int, **fields: Any) -> None:
        """Send a frame about a connection. Nothing happens if the other process has ended: `frames` reports it.

        Raises ValueError for one that is too long: the other process would close the socket of all connections.
        """
        # Half a surrogate pair, which JSON of a platform may contain, can be neither encoded nor stored.
        frame = json.dumps({"kind": kind, "number": number, **fields}, ensure_ascii=False).encode("utf-8", "replace")
        if len(frame) > _MOST_BYTES:
            raise ValueError(f"a frame of {len(frame):,} bytes is longer than {_MOST_BYTES:,}")
        if not self._writer.is_closing():
            self._writer.write(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)

    async def frames(self) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the frames that arrive, until the other process closes the socket, ends, or sends a malformed one."""
        try:
            while True:
                length = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES), "big")
                frame = _load(await self._reader.readexactly(length)) if length <= _MOST_BYTES else None
                if frame is None:  # without its content, which may hold secrets
                    logger.error("a frame of %d bytes is malformed: the socket is closed", length)
                    return
                yield frame
        except (asyncio.IncompleteReadError, OSError):
            return

    def close(self) -> None:
        self._writer.close()


def _load(data: bytes) -> Mapping[str, Any] | None:
    """Return a frame; None if it is not one about a connection."""
    try:
        frame = json.loads(data)
    except ValueError:
        return None
    is_frame = isinstance(frame, dict) and isinstance(frame.get("kind"), str) and type(frame.get("number")) is int
    return frame if is_frame else None


def dump_account(account: AccountSettings) -> dict[str, Any]:
    return {**dataclasses.asdict(account), "reachable": sorted(account.reachable)}


def load_account(data: Mapping[str, Any]) -> AccountSettings:
    return AccountSettings(**{**data, "reachable": frozenset(data["reachable"])})


def name_adapter(adapter: type[ChannelAdapter]) -> str:
    """Return the name by which the other process imports an adapter."""
    return f"{adapter.__module__}:{adapter.__qualname__}"


def find_adapter(name: str) -> type[ChannelAdapter]:
    """Return the adapter of that name."""
    module, _, found = name.partition(":")
    adapter: type[ChannelAdapter] = getattr(import_module(module), found)
    return adapter


def dump_received(received: Received) -> dict[str, Any]:
    """Return an event with its payload as JSON. of_account: the value of an event of another account."""
    found = received.event
    value, found = (found.value, found.event) if isinstance(found, OfAccount) else ("", found)
    event = {
        key: value.isoformat() if isinstance(value, datetime) else value
        for key, value in dataclasses.asdict(found).items()
    }
    raw = base64.b64encode(received.raw).decode()
    return {"type": type(found).__name__, "event": event, "raw": raw, **({"of_account": value} if value else {})}


def dump_ending(error: ConnectionLost | NeedsAttention) -> dict[str, Any]:
    """Return the end of a connection as the fields of its frame."""
    return {
        "error": next(code for code, ending in _ENDINGS.items() if isinstance(error, ending)),
        "message": error.message,
        "retry_after_seconds": getattr(error, "retry_after_seconds", 0.0),
    }


def load_ending(frame: Mapping[str, Any]) -> ConnectionLost | NeedsAttention:
    """Return the error that `dump_ending` was given."""
    ending = _ENDINGS[frame["error"]]
    if ending is ConnectionLost:
        return ConnectionLost(frame["message"], retry_after_seconds=frame["retry_after_seconds"])
    return ending(frame["message"])
