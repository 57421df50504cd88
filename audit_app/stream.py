"""Writing side of the live streams in Valkey: one stream per run, one shared stream of hints. JSON only.

An entry id of a run's stream is `<fence>-<n>`, set by the run's claim holder: ids rise with every claim, never depend
on a clock, and Valkey itself refuses what an older claim appends late. Nothing here is the truth; the database is.
"""

import json
import logging
from typing import Any
from uuid import UUID

import redis.asyncio
from django.conf import settings
from redis.exceptions import RedisError, ResponseError

from audit_app.kernel import valkey

logger = logging.getLogger(__name__)

KEEP_SECONDS = 1800
_HINTS_KEPT = 10_000


def hints_key() -> str:
    return f"{settings.KOMAND_REDIS_PREFIX}hints"


def run_key(run_id: UUID) -> str:
    return f"{settings.KOMAND_REDIS_PREFIX}run:{run_id}"


def send_hint(session_id: UUID, seq: int) -> None:
    """Tell followers that the session's timeline now reaches `seq`. Losing it costs a second, so errors are logged only."""
    _append_hint({"s": str(session_id), "q": str(seq)})


def send_passing(session_id: UUID, event: dict[str, Any]) -> None:
    """Tell followers a live-only fact that has no place in a run's stream (tool started, tool progress, typing).

    event: {"type", "run_id", ...payload}. It is not replayed: whoever was away learns it from the next kept event.
    """
    _append_hint({"s": str(session_id), "e": json.dumps(event, separators=(",", ":"))})


def _append_hint(fields: dict[str, str]) -> None:
    try:
        valkey.sync_client().xadd(hints_key(), fields, maxlen=_HINTS_KEPT, approximate=True)  # type: ignore[arg-type]
    except RedisError as error:
        logger.warning("hint not sent: %s", error)


class LiveStream:
    """The live stream of one claim of one run. Only the holder of `fence` writes through it.

    `append` never raises: live text is a convenience, the stored step is the truth. `lost` is True when the stream
    was flushed or could not be reached, and tells the writer to send a `snapshot` entry next. `fenced` is True once
    Valkey refused an entry because a newer claim has written: the writer should stop.
    """

    def __init__(self, client: "redis.asyncio.Redis", run_id: UUID, fence: int) -> None:
        self._client = client
        self._key = run_key(run_id)
        self._fence = fence
        self._n = 0
        self.lost = False
        self.fenced = False

    async def open(self, entry: dict[str, Any]) -> None:
        """Write this claim's first entry, creating the stream: from now on older claims are refused."""
        await self._write(entry, create=True)

    async def append(self, entry: dict[str, Any]) -> None:
        """entry: {"type", "step", ...}, JSON. While `lost`, pass only `snapshot` entries, which create the stream anew."""
        await self._write(entry, create=self.lost and entry["type"] == "snapshot")

    async def _write(self, entry: dict[str, Any], *, create: bool) -> None:
        self._n += 1
        entry_id = f"{self._fence}-{self._n}"
        data = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
        try:
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.xadd(self._key, {"e": data}, id=entry_id, nomkstream=not create)
                pipe.expire(self._key, KEEP_SECONDS)
                written, _ = await pipe.execute()
            self.lost = written is None
        except ResponseError as error:
            # Valkey refuses an id at or below the last one: a newer claim has written (or this very entry is there).
            self.fenced = "equal or smaller" in str(error)
            logger.info("live entry %s of %s refused: %s", entry_id, self._key, error)
        except RedisError as error:
            self.lost = True
            logger.warning("live entry %s of %s not sent: %s", entry_id, self._key, error)
