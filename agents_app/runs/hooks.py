"""Where apps above hang in what must live on the engine's loop or with the reaper. `komand.wiring` fills the lists."""

from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

from audit_app.liveness import Observer

# Coroutines started beside the engine and cancelled when it has drained; each has what is left of the drain's time to
# end in order, a moment at least.
chores: list[Callable[[], Coroutine[Any, Any, None]]] = []

# Called by every reaper about each second: guarded, idempotent, in transactions of their own.
sweeps: list[Callable[[Observer], None]] = []

# Told of each run that the engine here has claimed, on its loop: run id, conversation id, session key. Must return at
# once.
on_claim: list[Callable[[UUID, UUID, str], None]] = []

# Called when a run here has begun to wait for a person's approval or answer, after that is stored. Synchronous; must
# be quick.
on_ask: list[Callable[[], None]] = []
