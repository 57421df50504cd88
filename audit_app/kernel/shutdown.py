"""The time that this process may take for an orderly shutdown."""

from django.conf import settings

# When an operator waits for the end, as after Ctrl-C.
_HURRIED_SECONDS = 3.0

_is_hurried = False


def hurry() -> None:
    """Shorten the shutdown: an operator waits for it."""
    global _is_hurried
    _is_hurried = True


def seconds() -> float:
    """Return KOMAND_DRAIN_SECONDS, at most 3 after `hurry`."""
    drain = float(settings.KOMAND_DRAIN_SECONDS)
    return min(drain, _HURRIED_SECONDS) if _is_hurried else drain
