"""The writing side of the live streams in Valkey: one stream per run, one shared stream of hints. JSON only.

An entry id of a run's stream is `<fence>-<n>`, set by the owner of the run's claim: ids rise with every claim, do not
depend on a clock, and Valkey rejects late entries of an older claim. The database is authoritative, not the streams.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import redis.asyncio
from django.conf import settings
from redis.exceptions import RedisError, ResponseError

from audit_app.event_types import EventType, NewEvent, P
from audit_app.kernel import liveness, redact, valkey

logger = logging.getLogger(__name__)

# At least half an hour after the last entry: the expiry of a stream is renewed once a minute.
KEEP_SECONDS = 1800 + 60
_HINTS_KEPT = 10_000
_TICK_SECONDS = 0.016
_TEXT_AT_ONCE = 200
_RENEW_SECONDS = 60.0
# The end of a run waits for its last entries, but no longer than this on a server that hangs.
_ANSWER_SECONDS = 2.0
# A server that has not answered for so long is in doubt: nobody waits for it, and text is copied into the database.
_DOUBT_SECONDS = 1.0


def hints_key() -> str:
    return f"{settings.KOMAND_REDIS_PREFIX}hints"


def run_key(run_id: UUID) -> str:
    return f"{settings.KOMAND_REDIS_PREFIX}run:{run_id}"


def send_hint(session_id: UUID, seq: int) -> None:
    """Send followers a hint that the session's timeline reaches `seq`. A lost hint costs a second: never raises."""
    _append_hint({"s": str(session_id), "q": str(seq)})


def send_passing(event: NewEvent) -> None:
    """Send followers a live-only event that has no place in a run's stream, such as the progress of a tool.

    It is not replayed: a viewer that was not connected learns the outcome from the next kept event. Never raises for a
    broker.
    """
    step = {} if event.step is None else {"step": event.step}
    fields = {"type": event.type.name, "run_id": str(event.run_id), **step, **event.payload}
    text = redact.without_remembered(json.dumps(fields, separators=(",", ":")))
    _append_hint({"s": str(event.session_id), "e": text})


def _append_hint(fields: dict[str, str]) -> None:
    pairs = [part for pair in fields.items() for part in pair]
    valkey.post("XADD", hints_key(), "MAXLEN", "~", _HINTS_KEPT, "*", *pairs)


@dataclass(frozen=True, slots=True)
class Copy:
    """An entry of a run's live stream for the database. fields: as in Valkey."""

    run_id: UUID
    fence: int
    n: int
    fields: Mapping[str, Any]


@dataclass
class _Entry:
    stream: "LiveStream"
    id: str
    fields: dict[str, Any]
    create: bool


class LiveStream:
    """The live stream of one claim of one run, written by the owner of the claim alone.

    Nothing here blocks or raises: the stored step is authoritative, not the live text.
    lost: the stream was flushed or could not be reached; until a `snapshot` has arrived, which creates it again, the
    next entries must be snapshots.
    fenced: Valkey rejected an entry because a newer claim has written, so the writer should stop.
    """

    def __init__(self, writer: "StreamWriter", run_id: UUID, fence: int) -> None:
        self._writer = writer
        self._run_id = run_id
        self.key = run_key(run_id)
        self._fence = fence
        self._n = 0
        self._open: _Entry | None = None
        self.lost = False
        self.fenced = False

    def append(self, event_type: EventType[P], payload: P, *, step: int | None = None, create: bool = False) -> None:
        """Append an entry. A snapshot replaces an earlier one of its step that has not been sent yet."""
        fields = _fields(event_type, step, payload)
        entry, self._open = self._open, None
        if fields["type"] != "snapshot":
            self._post(fields, create)
        elif entry and (entry.fields["type"], entry.fields["step"]) == ("snapshot", fields["step"]):
            entry.fields, self._open = fields, entry
        else:
            self._open = self._post(fields, create or self.lost)

    def append_text(self, event_type: EventType[Any], step: int, offset: int, text: str) -> None:
        """Append a piece of text. It joins the piece before it as long as that one has not been sent."""
        entry = self._open
        if entry and entry.fields["type"] == event_type.name and entry.fields["step"] == step:
            entry.fields["text"] += text
            if len(entry.fields["text"]) >= _TEXT_AT_ONCE:
                self._writer.hurry()
            return
        self._open = self._post(_fields(event_type, step, {"offset": offset, "text": text}), False)
        if offset == 0:
            self._writer.hurry()  # viewers wait for the first piece; later ones may be batched

    @property
    def is_in_doubt(self) -> bool:
        """Return whether viewers may lack text because Valkey does not answer here, or at the process of a viewer."""
        return self.lost or self._writer.is_stalled or liveness.has_blind_process()

    def copy(self, event_type: EventType[P], payload: P, *, step: int) -> Copy:
        """Return an entry for the database, at the next position of this stream. Later text is a later entry."""
        fields = _fields(event_type, step, payload)
        self._n += 1
        copy = Copy(self._run_id, self._fence, self._n, fields)
        if self._open and self._open.fields["type"] == fields["type"]:
            # It can still grow, so it takes a position behind the copy. It is the last entry: the order stays.
            self._n += 1
            self._open.id = f"{self._fence}-{self._n}"
        else:
            self._open = None
        return copy

    async def flush(self) -> None:
        """Wait until everything appended so far has been sent or has failed, not long for a server that hangs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if self._writer.is_stalled else _DOUBT_SECONDS):
                await self._writer.flush()

    def sent(self, entry: _Entry, answer: Any) -> None:
        """Note the result of sending: `answer` is the entry's id, None for a missing stream, or an error."""
        if isinstance(answer, ResponseError) and "equal or smaller" in str(answer):
            self.fenced = True
        elif answer is None or isinstance(answer, Exception):
            self.lost = True
        elif entry.fields["type"] == "snapshot":  # other entries do not restore the missing text
            self.lost = False

    def closing(self, entry: _Entry) -> None:
        """Close the entry, which is being sent: later text must not join it."""
        if entry is self._open:
            self._open = None

    def _post(self, fields: dict[str, Any], create: bool) -> _Entry:
        self._n += 1
        entry = _Entry(self, f"{self._fence}-{self._n}", fields, create)
        self._writer.post(entry)
        return entry


def _fields(event_type: EventType[Any], step: int | None, payload: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": event_type.name, **({} if step is None else {"step": step}), **payload}


class StreamWriter:
    """Sends the live entries of all runs of one event loop in pipelines.

    The first entry after a pause is sent at once, later ones every 16 ms: a fast model and a process with many runs
    both cost one round trip per tick.
    """

    def __init__(self, client: "redis.asyncio.Redis") -> None:
        self._client = client
        self._waiting: list[_Entry] = []
        self._has_work = asyncio.Event()
        self._hurry = asyncio.Event()
        self._flushers: list[asyncio.Future[None]] = []
        self._in_flight: asyncio.Future[None] | None = None
        self._expiring: dict[str, float] = {}
        self._sent_at: float | None = None  # monotonic; of the batch that is in flight

    @property
    def is_stalled(self) -> bool:
        """Return whether the server has not answered a batch for longer than usual."""
        return self._sent_at is not None and time.monotonic() - self._sent_at >= _DOUBT_SECONDS

    def open(self, run_id: UUID, fence: int, event_type: EventType[P], payload: P) -> LiveStream:
        """Begin a claim: its first entry creates the stream and fences off older claims."""
        stream = LiveStream(self, run_id, fence)
        stream.append(event_type, payload, create=True)
        return stream

    def post(self, entry: _Entry) -> None:
        self._waiting.append(entry)
        self._has_work.set()

    def hurry(self) -> None:
        self._hurry.set()

    async def flush(self) -> None:
        """Wait until everything posted so far has been sent or has failed."""
        if self._waiting:
            done = asyncio.get_running_loop().create_future()
            self._flushers.append(done)
            self._hurry.set()
            await done
        elif self._in_flight:
            await asyncio.shield(self._in_flight)

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._has_work.wait()
            self._hurry.clear()
            await self._send()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._hurry.wait()

    async def _send(self) -> None:
        batch, self._waiting = self._waiting, []
        flushers, self._flushers = self._flushers, []
        self._has_work.clear()
        self._in_flight = asyncio.get_running_loop().create_future()
        for entry in batch:
            entry.stream.closing(entry)
        self._sent_at = time.monotonic()
        for entry, answer in zip(batch, await self._answers_to(batch), strict=True):
            entry.stream.sent(entry, answer)
        for done in (*flushers, self._in_flight):
            if not done.done():
                done.set_result(None)
        self._in_flight = self._sent_at = None

    async def _answers_to(self, batch: list[_Entry]) -> list[Any]:
        """Return the server's answer to each entry, or the error that kept all of them from being sent."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await self._transmit(batch)
        except (RedisError, OSError) as error:
            logger.warning("%d live entries not sent: %r", len(batch), error)
            self._expiring.clear()  # perhaps nothing was renewed
            return [error] * len(batch)

    async def _transmit(self, batch: list[_Entry]) -> list[Any]:
        for entry in batch:
            if entry.create:
                self._expiring.pop(entry.stream.key, None)
        renewed = self._due_for_renewal({entry.stream.key for entry in batch})
        async with self._client.pipeline(transaction=False) as pipe:
            for entry in batch:
                text = json.dumps(entry.fields, ensure_ascii=False, separators=(",", ":"))
                # Half a surrogate pair must not stop the writer for all runs of this process.
                data = text.encode(errors="replace")
                pipe.xadd(entry.stream.key, {"e": data}, id=entry.id, nomkstream=not entry.create)
            for key in renewed:
                pipe.expire(key, KEEP_SECONDS)
            answers = await pipe.execute(raise_on_error=False)
        return list(answers[: len(batch)])

    def _due_for_renewal(self, keys: set[str]) -> list[str]:
        """Return the streams whose expiry must be renewed: new ones, and each once a minute."""
        now = time.monotonic()
        due = [key for key in keys if self._expiring.get(key, 0.0) <= now]
        if due:
            self._expiring = {key: at for key, at in self._expiring.items() if at > now}
            self._expiring.update(dict.fromkeys(due, now + _RENEW_SECONDS))
        return due
