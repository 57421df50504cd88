"""What becomes of a message that could not be sent. Pure."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from sessions_app.channels.base import SendCertainty
from sessions_app.channels.messages import Capabilities

_LONGEST_PAUSE_SECONDS = 60.0


@dataclass(frozen=True)
class Verdict:
    """status: pending (again in `seconds`), failed, unknown or expired."""

    status: str
    seconds: float = 0.0


def decide(
    fate: SendCertainty,
    capabilities: Capabilities,
    *,
    tries: int,
    is_repeatable: bool,
    retry_after_seconds: float | None,
    now: datetime,
    expires_at: datetime,
    chance: float | None = None,
) -> Verdict:
    """tries: made so far, this one included; is_repeatable: sending it twice does no harm; chance: 0 to 1, for tests.

    Again goes only what certainly did not arrive, or may arrive twice; within its lifetime.
    """
    if fate is SendCertainty.REFUSED:
        return Verdict("failed")
    if fate is SendCertainty.UNKNOWN and not is_repeatable:
        return Verdict("unknown")
    if capabilities.retries and tries > len(capabilities.retries):
        return Verdict("failed")
    seconds = _pause(capabilities, tries, chance)
    if retry_after_seconds:  # "at once" is no wait: a platform that says so each time would be asked without a pause
        seconds = max(retry_after_seconds, seconds if capabilities.retries else 0.0)
    if now + timedelta(seconds=seconds) >= expires_at:
        return Verdict("expired")
    return Verdict("pending", seconds)


def may_repeat(capabilities: Capabilities, *, shown_id: str, filename: str) -> bool:
    """Whether sending it twice does no harm: the platform drops doubles, or it goes into the message of that id."""
    return capabilities.can_repeat or bool(capabilities.edit_sent and shown_id and not filename)


def _pause(capabilities: Capabilities, tries: int, chance: float | None) -> float:
    if capabilities.retries:
        return capabilities.retries[tries - 1]
    spread = random.random() if chance is None else chance  # noqa: S311 - spreads load, guards nothing
    return float(min(_LONGEST_PAUSE_SECONDS, 2.0**tries) * (0.5 + spread / 2))
