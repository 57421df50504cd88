"""Memory that robots of one process share: values by key, with the writer of each, waits and subscriptions.

Thread-safe. Nothing is stored: a memory lives as long as its object.
"""

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from audit_app.kernel.errors import AppError
from tools_app.types import ToolError

logger = logging.getLogger(__name__)

MOST_KEYS = 10_000
RESERVED = frozenset(("data", "results", "messages", "session_id"))
_writer: ContextVar[str] = ContextVar("writer", default="")


class MemoryTimeout(AppError):
    """A key was not written in time."""

    code = "memory_timeout"


@dataclass(frozen=True)
class MemoryChange:
    """A write of a memory.

    previous, value: None if there was, or is, none.
    writer: the robot that wrote, or empty.
    """

    key: str
    value: Any
    previous: Any
    writer: str
    is_created: bool = False
    is_deleted: bool = False
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))


class MemoryRefused(AppError, ToolError):
    """A key that a memory, or its task, may not use. The model of a robot whose function meets it gets the reason."""

    code = "memory_refused"


class Memory:
    """A memory. A key is any text but RESERVED; by convention `area:name`, so that patterns such as `area:*` fit.

    `memory[key]` raises KeyError for a key without a value.
    """

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = {}
        self._writers: dict[str, str] = {}
        self._subscriptions: dict[int, tuple[tuple[str, ...], Callable[[MemoryChange], None]]] = {}
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self.merge(values or {})

    @property
    def current_writer(self) -> str:
        """Return the robot that runs in this thread or task; empty outside of one."""
        return _writer.get()

    def set(self, key: str, value: Any) -> None:
        """Store a value, let those that wait for it continue, and call the subscribers in this thread."""
        self._change(key, value, is_deleted=False)

    def __getitem__(self, key: str) -> Any:
        self._check(key)
        with self._changed:
            return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.set(key, value)

    def __delitem__(self, key: str) -> None:
        self.delete(key)

    def __contains__(self, key: str) -> bool:
        return key in self.keys()

    def clear(self) -> None:
        """Remove all keys, each with a call of its subscribers."""
        for key in self.keys():
            self.delete(key)

    def delete(self, key: str) -> None:
        """Remove a key. Subscribers are called if there was one."""
        self._change(key, None, is_deleted=True)

    def merge(self, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            self.set(key, value)

    def get(self, *keys: str, wait: bool | float = False) -> Any:
        """Return the value of one key, or a dict of several; None for a key without a value.

        wait: until all keys have a value: True without an end, a number of seconds in all. Raises MemoryTimeout.
        """
        for key in keys:
            self._check(key)
        with self._changed:
            if wait is not False:
                limit = None if wait is True else float(wait)
                deadline = None if limit is None else time.monotonic() + limit
                while missing := [key for key in keys if key not in self._values]:
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        raise MemoryTimeout(f"No robot has written {', '.join(missing)} within {limit:g} seconds.")
                    self._changed.wait(left)
            found = {key: self._values.get(key) for key in keys}
        return found[keys[0]] if len(keys) == 1 else found

    def writer_of(self, key: str) -> str:
        """Return the robot that wrote the value; empty for code outside of robots, and without a value."""
        return self._writers.get(key, "")

    def keys(self) -> tuple[str, ...]:
        return tuple(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        with self._changed:
            return {key: value for key, value in self._values.items() if self._allows(key)}

    def subscribe(self, *patterns: str, callback: Callable[[MemoryChange], None]) -> int:
        """Call back for each change of the keys, in which `*` and `?` are wildcards. Return the subscription's id."""
        with self._changed:
            number = next(self._ids)
            self._subscriptions[number] = (patterns, callback)
            return number

    def unsubscribe(self, subscription: int) -> None:
        with self._changed:
            self._subscriptions.pop(subscription, None)

    @contextlib.contextmanager
    def written_by(self, name: str) -> Iterator[None]:
        """Make a robot the writer of this thread or task until the end of the block."""
        token = _writer.set(name)
        try:
            yield
        finally:
            _writer.reset(token)

    def limited(self, patterns: Collection[str]) -> "Memory":
        """Return this memory with the keys that fit these patterns alone; others raise MemoryRefused."""
        return _LimitedMemory(self, tuple(patterns))

    def _allows(self, key: str) -> bool:
        return True

    def _check(self, key: str) -> None:
        if key in RESERVED:
            problem = f"The key {key!r} is reserved, like {', '.join(sorted(RESERVED - {key}))}. Use another one."
            raise MemoryRefused(problem)
        if not self._allows(key):
            raise MemoryRefused(f"This task may not use the key {key!r} of the memory.")

    def _change(self, key: str, value: Any, *, is_deleted: bool) -> None:
        self._check(key)
        with self._changed:
            is_known = key in self._values
            if is_deleted and not is_known:
                return
            if not is_known and len(self._values) >= MOST_KEYS:
                raise ValueError(f"A memory may have at most {MOST_KEYS:,} keys.")
            change = MemoryChange(
                key, value, self._values.get(key), _writer.get(), is_created=not is_known, is_deleted=is_deleted
            )
            self._values.pop(key, None)
            self._writers.pop(key, None)
            if not is_deleted:
                self._values[key] = value
                self._writers[key] = change.writer
            callbacks = [
                callback
                for patterns, callback in self._subscriptions.values()
                if any(fnmatchcase(key, pattern.replace("[", "[[]")) for pattern in patterns)
            ]
            self._changed.notify_all()
        for callback in callbacks:
            try:
                callback(change)
            except Exception:
                logger.exception("a subscriber of the memory key %s failed", key)


class _LimitedMemory(Memory):
    """The values of another memory, as far as their keys fit patterns. Subscribers get changes of these keys alone."""

    def __init__(self, whole: Memory, patterns: tuple[str, ...]) -> None:
        self.__dict__.update(vars(whole))
        self._whole, self._patterns = whole, patterns

    def subscribe(self, *patterns: str, callback: Callable[[MemoryChange], None]) -> int:
        def fitting(change: MemoryChange) -> None:
            if self._allows(change.key):
                callback(change)

        return super().subscribe(*patterns, callback=fitting)

    def _allows(self, key: str) -> bool:
        return self._whole._allows(key) and any(fnmatchcase(key, pattern) for pattern in self._patterns)
