"""The outbox's life on an engine's loop: one sender and the previews beside it, sharing connections and pace."""

from collections.abc import Callable
from uuid import UUID

from audit_app import follow, liveness
from sessions_app.channels.accounts import Adapters
from sessions_app.channels.outbound.drafts import Drafts
from sessions_app.channels.outbound.rate_limiter import Pacing
from sessions_app.channels.outbound.sender import Sender

# Set while `run` runs: takes each run that was claimed in this process.
_begin: list[Callable[[UUID, UUID, str], None]] = []


async def run() -> None:
    """A chore of the engine's loop: send and show until cancelled, then end in order."""
    owner, adapters, pacing = liveness.current(), Adapters(), Pacing()
    sender, drafts = Sender(owner, adapters, pacing), Drafts(owner, adapters, pacing)
    _begin.append(drafts.begin)
    try:
        await sender.run()
    finally:
        _begin.remove(drafts.begin)
        await drafts.aclose()  # first, so that others may go on with the previews
        await sender.aclose()
        await adapters.aclose()
        await follow.current_follower().aclose()


def on_claim(run_id: UUID, session_id: UUID, session_key: str) -> None:
    """On the engine's loop: a run was claimed here."""
    for begin in _begin:
        begin(run_id, session_id, session_key)
