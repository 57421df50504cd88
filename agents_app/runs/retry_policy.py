"""When a failed model call is tried again: a pure function of the error, the tries so far and the agent's limits."""

import random

from agents_app.types import Limits

_JITTER = 0.1
_MOST_DOUBLINGS = 64  # of a millisecond: longer than any limit; a float has an end


def retry_delay(limits: Limits, tries: int, *, retryable: bool, retry_after_seconds: float | None) -> float | None:
    """Seconds to wait before the next try, or None to give up.

    tries: calls of this step that failed, this one included. The delay doubles from the first to the longest one
    the agent allows, with 10 % jitter; a provider's own Retry-After is honoured when it is longer.
    """
    if not retryable or tries >= limits.tries:
        return None
    doublings = min(tries - 1, _MOST_DOUBLINGS)
    delay = min(limits.retry_first_seconds * limits.retry_factor**doublings, limits.retry_max_seconds)
    delay *= 1 + random.uniform(-_JITTER, _JITTER)  # noqa: S311 - spreads retries, guards nothing
    return max(delay, retry_after_seconds or 0.0)
