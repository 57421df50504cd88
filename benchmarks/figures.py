"""Measured values with their targets, and statistics of samples. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured value.

    target, stretch: upper limits, or lower limits if `at_least` is set.
    """

    part: str
    name: str
    value: float
    unit: str = ""
    target: float | None = None
    stretch: float | None = None
    at_least: bool = False

    @property
    def is_met(self) -> bool | None:
        """True if the target is met; None if there is no target."""
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least `share` (0 to 1) of all samples do not exceed."""
    if not samples:
        raise ValueError("there are no samples")
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]


def p50(samples: Sequence[float]) -> float:
    return percentile(samples, 0.5)


def p99(samples: Sequence[float]) -> float:
    return percentile(samples, 0.99)
