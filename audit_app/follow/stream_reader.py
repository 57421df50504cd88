"""One blocking read over the stream of hints and the streams of all followed runs, on one event loop."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from audit_app import stream
from audit_app.follow.items import Hint, LiveEntry, Position, format_position, parse_entry, parse_hint
from audit_app.kernel import valkey
from audit_app.kernel.futures import cancel_all

logger = logging.getLogger(__name__)

_BLOCK_SECONDS = 5
_PING_SECONDS = 1.0
# For a viewer that has just come: of a server that hangs it gets the copy in the database.
_READ_ALL_SECONDS = 1.5
_STALLED_SECONDS = _BLOCK_SECONDS + 5
_RETRY_SECONDS = 0.5
_ENTRIES_A_READ = 500
_TICK_SECONDS = 0.02
_TICKS_AT_ONCE = 8
_INTERRUPT_KEY_SECONDS = 3600

RawEntries = Sequence[tuple[bytes, dict[bytes, bytes]]]


class StreamReader:
    """Calls `on_entries` and `on_hints` with new entries, each decoded once.

    While Valkey is unavailable it keeps its positions and retries. `on_connected` is called each time that reading
    starts (again), since hints may have been lost.
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
        # This loop retries itself: the client would repeat a read with an outdated list of streams.
        self._client.set_retry(Retry(NoBackoff(), 0))
        self._runs: dict[bytes, UUID] = {}
        self._read_to: dict[bytes, bytes] = {}
        self._hints_key = stream.hints_key().encode()
        self._interrupt_key = f"{settings.KOMAND_REDIS_PREFIX}wake:{uuid4()}".encode()
        self._interrupts = 0
        self._is_blocked = False
        self._is_away = False
        self._interrupting: set[asyncio.Task[None]] = set()
        self._pacer = Pacer(_TICK_SECONDS, _TICKS_AT_ONCE)

    def watch(self, run_id: UUID, after: Position) -> None:
        """Read this run's stream too, from after that position, at once. Idempotent."""
        key = stream.run_key(run_id).encode()
        if key not in self._runs:
            self._runs[key] = run_id
            self._read_to[key] = format_position(after).encode()
            self._interrupt()

    def unwatch(self, run_id: UUID) -> None:
        key = stream.run_key(run_id).encode()
        self._runs.pop(key, None)
        self._read_to.pop(key, None)

    async def read_all(self, run_id: UUID) -> list[LiveEntry] | None:
        """Return the entries of the run's stream, none if it is gone; None if Valkey is unavailable."""
        try:
            async with asyncio.timeout(_READ_ALL_SECONDS):
                raw: Any = await self._client.xrange(stream.run_key(run_id))
        except (RedisError, OSError) as error:
            logger.info("stream of run %s could not be read: %r", run_id, error)
            return None
        return _parse_entries(run_id, raw)

    async def can_read(self) -> bool:
        """Return whether Valkey answers. A read that waits for new entries does not show it."""
        if self._is_away:
            return False
        try:
            async with asyncio.timeout(_PING_SECONDS):
                await self._client.ping()
        except (RedisError, OSError):
            return False
        return True

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            try:
                await self._listen()
                self._is_away = False
                while True:
                    await self._read_once()
            except Exception as error:  # whatever it is: without this loop no viewer sees anything live
                if not self._is_away:
                    expected = isinstance(error, RedisError | OSError)
                    logger.warning("cannot read the live streams: %r", error, exc_info=not expected)
                self._is_away = True
                await asyncio.sleep(_RETRY_SECONDS)

    async def aclose(self) -> None:
        await cancel_all(self._interrupting)
        if self._interrupts:
            with contextlib.suppress(RedisError, OSError):
                async with asyncio.timeout(1):
                    await self._client.delete(self._interrupt_key)
        await self._client.aclose(close_connection_pool=True)

    async def _listen(self) -> None:
        """Start to read hints at their end: the timeline holds the events of older ones."""
        newest: Any = await self._client.xrevrange(self._hints_key, count=1)
        self._read_to[self._hints_key] = newest[0][0] if newest else b"0-0"
        self._read_to[self._interrupt_key] = b"%d-0" % self._interrupts
        self._on_connected()

    async def _read_once(self) -> None:
        self._is_blocked = True
        try:
            # A server that hangs does not end the block in time.
            async with asyncio.timeout(_STALLED_SECONDS):
                streams: Any = dict(self._read_to)
                block = _BLOCK_SECONDS * 1000
                reply: Any = await self._client.xread(streams, count=_ENTRIES_A_READ, block=block)
        finally:
            self._is_blocked = False
        if self._deliver(reply):
            await asyncio.sleep(self._pacer.delay())

    def _deliver(self, reply: Sequence[tuple[bytes, RawEntries]]) -> bool:
        """Deliver entries before hints: the text of a step comes before the event that closes it."""
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

    def _interrupt(self) -> None:
        """Interrupt the read that blocks on the old list of streams. An entry added before the read works too."""
        if self._is_blocked:
            self._is_blocked = False
            task = asyncio.get_running_loop().create_task(self._send_interrupt())
            self._interrupting.add(task)
            task.add_done_callback(self._interrupting.discard)

    async def _send_interrupt(self) -> None:
        self._interrupts += 1
        try:
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.xadd(self._interrupt_key, {"w": ""}, id=f"{self._interrupts}-0", maxlen=1)
                pipe.expire(self._interrupt_key, _INTERRUPT_KEY_SECONDS)
                await pipe.execute()
        except (RedisError, OSError) as error:
            logger.info("the read of the live streams was not interrupted: %r", error)


def _parse_entries(run_id: UUID, raw: RawEntries) -> list[LiveEntry]:
    return [entry for entry_id, fields in raw if (entry := parse_entry(run_id, entry_id, fields))]


class Pacer:
    """A token bucket: allows `burst` deliveries at once and one more every `interval` seconds."""

    def __init__(self, interval: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._allowance = interval * (burst - 1)
        self._clock = clock
        self._spent_until = 0.0

    def delay(self) -> float:
        """Count a delivery and return the seconds to wait before the next read."""
        now = self._clock()
        self._spent_until = max(self._spent_until, now) + self._interval
        return max(0.0, self._spent_until - now - self._allowance)
