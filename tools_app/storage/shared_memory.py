"""Memory that runs share: values under keys, with the writer of each, and changes to wait for in any process.

A change is announced over Valkey after its commit. A lost announcement costs a second: who waits looks that often.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Literal
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from redis.exceptions import RedisError

from audit_app.kernel import valkey
from audit_app.kernel.advisory_lock import serialize
from audit_app.kernel.after_commit import after_commit
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import Conflict, InvalidInput
from tools_app.models import SharedValue

logger = logging.getLogger(__name__)

MAX_KEYS = 1_000
MAX_KEY_CHARACTERS = 120
MAX_VALUE_BYTES = 100 * 1024
_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Space:
    """The runs that share values: those of one network run, of one tree of runs, or of one session."""

    kind: Literal["network", "run", "session"]
    owner_id: UUID

    @property
    def channel(self) -> str:
        """Return the name under which changes are announced."""
        return f"{settings.KOMAND_REDIS_PREFIX}shared:{self.kind}:{self.owner_id}"


@dataclass(frozen=True)
class Shared:
    """A value.

    version: raised by each write.
    writer: writer of the last one, such as `task:review`.
    """

    key: str
    value: Any
    version: int
    writer: str
    updated_at: datetime


class VersionMismatchError(Conflict):
    """The value was written by another run meanwhile. `found`: as it is now, None if there is none."""

    def __init__(self, found: Shared | None) -> None:
        self.found = found
        version = found.version if found else 0
        message = f"The value was changed meanwhile: it has version {version}. Read it again."
        super().__init__(message, code="version_mismatch", version=version)


def write(space: Space, key: str, value: Any, *, writer: str, expected: int | None = None) -> Shared:
    """Store a value under a key, replacing the one before. Owns its transaction.

    expected: the version that it must have, 0 for none yet; None for any. Writing the same value again by the same
    writer changes nothing. Raises InvalidInput (shared_value_limit) and VersionMismatchError.
    """
    _check(key, value)
    with transaction.atomic():
        serialize(f"shared values of {space.kind} {space.owner_id}")
        row = _rows(space).filter(key=key).first()
        if row is not None and (row.value, row.writer) == (value, writer):
            return _view(row)
        if expected is not None and expected != (row.version if row else 0):
            raise VersionMismatchError(_view(row) if row else None)
        now = timezone.now()
        if row is None:
            if _rows(space).count() >= MAX_KEYS:
                raise _beyond(f"There are already {MAX_KEYS:,} shared values. Delete some first.")
            row = SharedValue.objects.create(
                kind=space.kind, owner_id=space.owner_id, key=key, value=value, writer=writer, updated_at=now
            )
        else:
            row.value, row.writer, row.updated_at, row.version = value, writer, now, row.version + 1
            row.save(update_fields=["value", "writer", "updated_at", "version"])
        after_commit(_announce, space, key)
        return _view(row)


def read(space: Space, key: str) -> Shared | None:
    """Return the value under a key, None if there is none."""
    row = _rows(space).filter(key=key).first()
    return _view(row) if row else None


def find(space: Space, pattern: str = "*") -> tuple[Shared, ...]:
    """Return the values whose keys match a pattern (`*`: any text, `?`: one character), by key."""
    return tuple(_view(row) for row in _rows(space).order_by("key") if matches(row.key, pattern))


def matches(key: str, pattern: str) -> bool:
    return fnmatchcase(key, pattern)


def delete(space: Space, key: str) -> bool:
    """Delete a value. Returns whether it existed. Owns its transaction."""
    with transaction.atomic():
        deleted, _ = _rows(space).filter(key=key).delete()
        after_commit(_announce, space, key)
        return bool(deleted)


async def wait(space: Space, pattern: str, *, seconds: float, after: int = 0) -> tuple[Shared, ...]:
    """Return the values that match a pattern once one has a higher version than `after`; none after the time.

    Works across processes, without holding a database connection meanwhile.
    """
    async with _announcements(space) as announced:
        ends_at = time.monotonic() + seconds
        while True:
            found = await in_db(find, space, pattern)
            if any(each.version > after for each in found):
                return found
            left = ends_at - time.monotonic()
            if left <= 0:
                return ()
            await announced(min(left, _LOOK_SECONDS))


async def subscribe(space: Space, pattern: str = "*") -> AsyncIterator[Shared]:
    """Yield each value that matches a pattern when it changes, and first those that there are, without an end.

    Of several changes in quick succession only the last may be seen.
    """
    seen: dict[str, int] = {}
    async with _announcements(space) as announced:
        while True:
            for each in await in_db(find, space, pattern):
                if seen.get(each.key) != each.version:
                    seen[each.key] = each.version
                    yield each
            await announced(_LOOK_SECONDS)


@asynccontextmanager
async def _announcements(space: Space) -> AsyncIterator[Any]:
    """Provide a coroutine that waits for a change, at most for some seconds."""
    client = valkey.async_client(max_connections=1)
    pubsub = client.pubsub()
    try:
        try:
            await pubsub.subscribe(space.channel)
        except (RedisError, OSError):
            logger.warning("changes of shared values are not announced: the broker is away")

        async def announced(seconds: float) -> None:
            try:
                await pubsub.get_message(ignore_subscribe_messages=True, timeout=seconds)
            except (RedisError, OSError, RuntimeError):
                await asyncio.sleep(seconds)

        yield announced
    finally:
        await pubsub.aclose()  # type: ignore[no-untyped-call]
        await client.aclose()


def _announce(space: Space, key: str) -> None:
    """Announce a change. Never raises for a broker that is down."""
    if valkey.breaker.is_open:
        return
    try:
        with valkey.breaker.watch():
            valkey.sync_client().publish(space.channel, key)
    except RedisError as error:
        logger.warning("a change of a shared value was not announced: %s", error)


def _check(key: str, value: Any) -> None:
    if not key.strip() or len(key) > MAX_KEY_CHARACTERS:
        raise _beyond(f"A key must have 1 to {MAX_KEY_CHARACTERS} characters.")
    size = len(json.dumps(value, ensure_ascii=False).encode())
    if size > MAX_VALUE_BYTES:
        raise _beyond(
            f"A value may have at most {MAX_VALUE_BYTES:,} bytes as JSON; this one has {size:,}. Store a file."
        )


def _beyond(limit: str) -> InvalidInput:
    return InvalidInput(limit, code="shared_value_limit")


def _rows(space: Space) -> QuerySet[SharedValue]:
    return SharedValue.objects.filter(kind=space.kind, owner_id=space.owner_id)


def _view(row: SharedValue) -> Shared:
    return Shared(row.key, row.value, row.version, row.writer, row.updated_at)
