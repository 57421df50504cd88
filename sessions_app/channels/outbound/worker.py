"""The outbox's background work on an engine's loop: one sender and the previews, sharing connections and limits."""

from agents_app.runs import hooks
from audit_app import follow
from audit_app.kernel import liveness
from sessions_app.channels.accounts import Adapters
from sessions_app.channels.outbound.drafts import Drafts
from sessions_app.channels.outbound.rate_limiter import RateLimiter
from sessions_app.channels.outbound.sender import Sender


async def run() -> None:
    """Send deliveries and show previews until cancelled, then finish sends under way. Runs on the engine's loop."""
    owner, adapters, limiter = liveness.current(), Adapters(), RateLimiter()
    sender, drafts = Sender(owner, adapters, limiter), Drafts(owner, adapters, limiter)
    hooks.on_claim.append(drafts.begin)
    try:
        await sender.run()
    finally:
        hooks.on_claim.remove(drafts.begin)
        await drafts.aclose()  # first, so that other processes can take the previews over
        await sender.aclose()
        await adapters.aclose()
        await follow.current_follower().aclose()
