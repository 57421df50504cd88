"""How long this process may take to end in order, once it is asked to."""

from django.conf import settings

# When somebody waits for the end, as after Ctrl-C.
_HURRIED_SECONDS = 3.0

_is_hurried = False


def hurry() -> None:
    """Somebody waits for the end of this process."""
    global _is_hurried
    _is_hurried = True


def seconds() -> float:
    """KOMAND_DRAIN_SECONDS, less in a hurry."""
    patient = float(settings.KOMAND_DRAIN_SECONDS)
    return min(patient, _HURRIED_SECONDS) if _is_hurried else patient
