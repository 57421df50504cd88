"""The retry policy: the next status of a delivery that could not be sent. Pure."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from sessions_app.platforms.base import SendCertainty
from sessions_app.platforms.messages import Capabilities

_LONGEST_PAUSE_SECONDS = 60.0


@dataclass(frozen=True)
class FailedTry:
    """A try that failed.

    tries: made so far, this one included.
    is_repeatable: sending the message twice is harmless.
    retry_after_seconds: the pause that the platform asked for.
    """

    certainty: SendCertainty
    tries: int
    failed_at: datetime
    expires_at: datetime
    is_repeatable: bool = False
    retry_after_seconds: float | None = None


@dataclass(frozen=True)
class Verdict:
    """status: pending (retry in `seconds`), failed, unknown or expired."""

    status: str
    seconds: float = 0.0


def decide(failed: FailedTry, capabilities: Capabilities, *, chance: float | None = None) -> Verdict:
    """Return the verdict on a failed try. chance: 0 to 1 instead of a random number, for tests.

    Only what certainly did not arrive, or may arrive twice, is sent again, within its lifetime.
    """
    if failed.certainty is SendCertainty.REFUSED:
        return Verdict("failed")
    if failed.certainty is SendCertainty.UNKNOWN and not failed.is_repeatable:
        return Verdict("unknown")
    if capabilities.retries and failed.tries > len(capabilities.retries):
        return Verdict("failed")
    seconds = _pause(capabilities, failed.tries, chance)
    if failed.retry_after_seconds:  # 0 is ignored: a platform that always asks for it would be called without a pause
        seconds = max(failed.retry_after_seconds, seconds if capabilities.retries else 0.0)
    if failed.failed_at + timedelta(seconds=seconds) >= failed.expires_at:
        return Verdict("expired")
    return Verdict("pending", seconds)


def may_repeat(capabilities: Capabilities, *, shown_id: str, filename: str) -> bool:
    """Return whether sending a message twice is harmless: receivers drop duplicates, or it is an edit of shown_id."""
    return capabilities.can_repeat or bool(capabilities.edit_sent and shown_id and not filename)


def _pause(capabilities: Capabilities, tries: int, chance: float | None) -> float:
    """Return the channel's own pause, or exponential back-off with jitter, in seconds."""
    if capabilities.retries:
        return capabilities.retries[tries - 1]
    spread = random.random() if chance is None else chance  # noqa: S311 - spreads load, guards nothing
    return float(min(_LONGEST_PAUSE_SECONDS, 2.0**tries) * (0.5 + spread / 2))
