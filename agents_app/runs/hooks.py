"""Hooks by which apps above run code beside the engine and the reaper. `komand.wiring` fills the lists."""

from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

from audit_app.kernel.liveness import Observer

# Coroutines started beside the engine and cancelled when it has drained. Each has the rest of the drain's time to end.
chores: list[Callable[[], Coroutine[Any, Any, None]]] = []

# Called by every reaper about each second. Must be guarded and idempotent, and own their transactions.
sweeps: list[Callable[[Observer], None]] = []

# Called on the engine's loop for each root run that it has claimed, with run id, conversation id and session key. Must
# not block.
on_claim: list[Callable[[UUID, UUID, str], None]] = []

# Called after commit when a run of this process starts to wait for an approval or an answer. Synchronous; must be fast.
on_ask: list[Callable[[], None]] = []
