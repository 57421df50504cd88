"""Sortable ids: UUID version 7 (RFC 9562), strictly rising within a process."""

import hashlib
import os
import secrets
import threading
import time
import uuid
from datetime import UTC, datetime

FIRST_MOMENT = datetime.fromtimestamp(0, UTC)  # ids cannot encode an earlier time

_lock = threading.Lock()
_last_ms = 0
_last_counter = 0


def _renew_lock() -> None:
    """Replace the lock in a forked child: another thread of the parent may have held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def new_id() -> uuid.UUID:
    """Return a version 7 UUID: 48 bits of Unix milliseconds, a 12-bit counter, 62 random bits (RFC 9562, section 5.7).

    Ids of one process compare in the order of their creation, even if the wall clock steps back.
    """
    global _last_ms, _last_counter
    with _lock:
        now_ms = time.time_ns() // 1_000_000
        if now_ms > _last_ms:
            _last_ms, _last_counter = now_ms, secrets.randbits(11)
        else:
            _last_counter += 1
            if _last_counter > 0xFFF:
                _last_ms, _last_counter = _last_ms + 1, 0
        ms, counter = _last_ms, _last_counter
    value = (ms & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | secrets.randbits(62)
    return uuid.UUID(int=value)


def derived_id(source: uuid.UUID, key: str) -> uuid.UUID:
    """Return the version 7 UUID that belongs to this id and key: always the same, with the place of `source` in time.

    source: source of version 7.
    """
    digest = int.from_bytes(hashlib.sha256(source.bytes + key.encode()).digest()[:8])
    return uuid.UUID(int=source.int >> 64 << 64 | 0b10 << 62 | digest & (1 << 62) - 1)


def first_id_at(moment: datetime) -> uuid.UUID:
    """Return the lowest id of `moment`, an aware time: ids created later are higher."""
    return uuid.UUID(int=int(moment.timestamp() * 1000) << 80 | 0x7 << 76 | 0b10 << 62)
