"""Hooks by which apps above run code beside the engine and the reaper. `komand.wiring` fills the lists."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from audit_app.kernel.compiled_queries import CompiledObjects, CompiledQuery
from audit_app.kernel.liveness import Observer


@dataclass(frozen=True)
class Sweep:
    """A part of the sweeps of each second.

    run: called with the reaper's observer. Must be guarded and idempotent, and own its transactions.
    finds: queries of which one finds a row if there is something to do. They are asked in one statement with those of
        the other parts. Without any, `run` is called each time.
    values: returns the parameters of these queries.
    """

    run: Callable[[Observer], object]
    finds: Sequence[CompiledQuery | CompiledObjects[Any]] = ()
    values: Callable[[], dict[str, Any]] = dict


# Coroutines started beside the engine and cancelled when it has drained. Each has the rest of the drain's time to end.
chores: list[Callable[[], Coroutine[Any, Any, None]]] = []

# About each second, by the reaper of one process.
sweeps: list[Sweep] = []

# Called on the engine's loop for each root run that it has claimed, with run id, conversation id and session key. Must
# not block.
on_claim: list[Callable[[UUID, UUID, str], None]] = []

# Called after commit when a run of this process starts to wait for an approval or an answer. Synchronous; must be fast.
on_ask: list[Callable[[], None]] = []
