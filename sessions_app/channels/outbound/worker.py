"""The outbox's background work on an engine's loop: one sender and the previews, sharing connections and limits."""

from collections.abc import Callable
from uuid import UUID

from audit_app import follow
from audit_app.kernel import liveness
from sessions_app.channels.accounts import Adapters
from sessions_app.channels.outbound.drafts import Drafts
from sessions_app.channels.outbound.rate_limiter import RateLimiter
from sessions_app.channels.outbound.sender import Sender

# Set while `run` runs: called for each run that is claimed in this process.
_begin: list[Callable[[UUID, UUID, str], None]] = []


async def run() -> None:
    """Send deliveries and show previews until cancelled, then finish sends under way. Runs on the engine's loop."""
    owner, adapters, limiter = liveness.current(), Adapters(), RateLimiter()
    sender, drafts = Sender(owner, adapters, limiter), Drafts(owner, adapters, limiter)
    _begin.append(drafts.begin)
    try:
        await sender.run()
    finally:
        _begin.remove(drafts.begin)
        await drafts.aclose()  # first, so that other processes can take the previews over
        await sender.aclose()
        await adapters.aclose()
        await follow.current_follower().aclose()


def on_claim(run_id: UUID, session_id: UUID, session_key: str) -> None:
    """Show previews of a run that was claimed in this process. Called on the engine's loop."""
    for begin in _begin:
        begin(run_id, session_id, session_key)
