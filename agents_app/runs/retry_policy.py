"""The back-off of failed model calls: a pure function of the error, the tries so far and the agent's limits."""

import random

from agents_app.types import Limits

_JITTER = 0.1
_MAX_DOUBLINGS = 64  # beyond any limit, and below the overflow of a float


def retry_delay(limits: Limits, tries: int, *, retryable: bool, retry_after_seconds: float | None) -> float | None:
    """Return the seconds to wait before the next try, or None to give up.

    tries: failed calls of this step, including this one.

    The delay doubles from the agent's first to its longest delay, with 10 % jitter. The provider's Retry-After
    replaces it if it is longer.
    """
    if not retryable or tries >= limits.tries:
        return None
    doublings = min(tries - 1, _MAX_DOUBLINGS)
    delay = min(limits.retry_first_seconds * limits.retry_factor**doublings, limits.retry_max_seconds)
    delay *= 1 + random.uniform(-_JITTER, _JITTER)  # noqa: S311 - spreads retries, guards nothing
    return max(delay, retry_after_seconds or 0.0)
