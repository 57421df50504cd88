"""One blocking read over the stream of hints and all watched runs' streams. Lives on one event loop."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from audit_app import stream
from audit_app.follow.items import Hint, LiveEntry, Position, format_position, parse_entry, parse_hint
from audit_app.follow.read_interval import Pacer
from audit_app.kernel import valkey

logger = logging.getLogger(__name__)

_BLOCK_SECONDS = 5
_STALLED_SECONDS = _BLOCK_SECONDS + 5
_RETRY_SECONDS = 0.5
_ENTRIES_A_READ = 500
_TICK_SECONDS = 0.02
_TICKS_AT_ONCE = 8
_WAKE_KEY_SECONDS = 3600

RawEntries = Sequence[tuple[bytes, dict[bytes, bytes]]]


class StreamReader:
    """Calls `on_entries` and `on_hints` with what is new, each entry decoded once.

    While Valkey is away it keeps its positions and tries again; `on_connected` is called each time it has (again)
    begun to listen, since hints may have been lost.
    """

    def __init__(
        self,
        on_entries: Callable[[UUID, Sequence[LiveEntry]], None],
        on_hints: Callable[[Sequence[Hint]], None],
        on_connected: Callable[[], None],
    ) -> None:
        self._on_entries = on_entries
        self._on_hints = on_hints
        self._on_connected = on_connected
        self._client = valkey.async_client(max_connections=8)
        # Its own retries would repeat a read whose list of streams is out of date: this loop retries itself.
        self._client.set_retry(Retry(NoBackoff(), 0))
        self._runs: dict[bytes, UUID] = {}
        self._read_to: dict[bytes, bytes] = {}
        self._hints_key = stream.hints_key().encode()
        self._wake_key = f"{settings.KOMAND_REDIS_PREFIX}wake:{uuid4()}".encode()
        self._wakes = 0
        self._is_blocked = False
        self._waking: set[asyncio.Task[None]] = set()
        self._pacer = Pacer(_TICK_SECONDS, _TICKS_AT_ONCE)

    def watch(self, run_id: UUID, after: Position) -> None:
        """Read this run's stream too, from after that position. Takes effect at once. Does nothing twice."""
        key = stream.run_key(run_id).encode()
        if key not in self._runs:
            self._runs[key] = run_id
            self._read_to[key] = format_position(after).encode()
            self._wake()

    def unwatch(self, run_id: UUID) -> None:
        key = stream.run_key(run_id).encode()
        self._runs.pop(key, None)
        self._read_to.pop(key, None)

    async def read_all(self, run_id: UUID) -> list[LiveEntry]:
        """What the run's stream holds now; nothing when it is gone or Valkey is away."""
        try:
            async with asyncio.timeout(_BLOCK_SECONDS):
                raw: Any = await self._client.xrange(stream.run_key(run_id))
        except (RedisError, OSError) as error:
            logger.info("stream of run %s could not be read: %r", run_id, error)
            return []
        return _parse_entries(run_id, raw)

    async def run(self) -> None:
        """Read until cancelled."""
        is_away = False
        while True:
            try:
                await self._listen()
                is_away = False
                while True:
                    await self._read_once()
            except Exception as error:  # whatever it is: without this loop nobody sees anything live
                if not is_away:
                    expected = isinstance(error, RedisError | OSError)
                    logger.warning("live streams cannot be read just now: %r", error, exc_info=not expected)
                is_away = True
                await asyncio.sleep(_RETRY_SECONDS)

    async def aclose(self) -> None:
        for task in self._waking:
            task.cancel()
        await asyncio.gather(*self._waking, return_exceptions=True)
        if self._wakes:
            with contextlib.suppress(RedisError, OSError):
                async with asyncio.timeout(1):
                    await self._client.delete(self._wake_key)
        await self._client.aclose(close_connection_pool=True)

    async def _listen(self) -> None:
        """Hints are read from their present end: older ones say nothing that the timeline does not."""
        newest: Any = await self._client.xrevrange(self._hints_key, count=1)
        self._read_to[self._hints_key] = newest[0][0] if newest else b"0-0"
        self._read_to[self._wake_key] = b"%d-0" % self._wakes
        self._on_connected()

    async def _read_once(self) -> None:
        self._is_blocked = True
        try:
            # A server that hangs does not keep its promise to answer in time.
            async with asyncio.timeout(_STALLED_SECONDS):
                streams: Any = dict(self._read_to)
                block = _BLOCK_SECONDS * 1000
                reply: Any = await self._client.xread(streams, count=_ENTRIES_A_READ, block=block)
        finally:
            self._is_blocked = False
        if self._deliver(reply):
            await asyncio.sleep(self._pacer.delay())

    def _deliver(self, reply: Sequence[tuple[bytes, RawEntries]]) -> bool:
        """Entries before hints: what a run streamed comes before the fact that closes it."""
        hints: list[Hint] = []
        delivered = False
        for key, entries in reply:
            if key in self._read_to:
                self._read_to[key] = entries[-1][0]
            if key == self._hints_key:
                hints = [hint for _, raw in entries if (hint := parse_hint(raw))]
            elif run_id := self._runs.get(key):
                self._on_entries(run_id, _parse_entries(run_id, entries))
                delivered = True
        if hints:
            self._on_hints(hints)
        return delivered or bool(hints)

    def _wake(self) -> None:
        """Interrupt the read that blocks on the old list of streams. An entry works also if it is there first."""
        if self._is_blocked:
            self._is_blocked = False
            task = asyncio.get_running_loop().create_task(self._send_wake())
            self._waking.add(task)
            task.add_done_callback(self._waking.discard)

    async def _send_wake(self) -> None:
        self._wakes += 1
        try:
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.xadd(self._wake_key, {"w": ""}, id=f"{self._wakes}-0", maxlen=1)
                pipe.expire(self._wake_key, _WAKE_KEY_SECONDS)
                await pipe.execute()
        except (RedisError, OSError) as error:
            logger.info("the read of the live streams was not interrupted: %r", error)


def _parse_entries(run_id: UUID, raw: RawEntries) -> list[LiveEntry]:
    return [entry for entry_id, fields in raw if (entry := parse_entry(run_id, entry_id, fields))]
