"""How much is measured: the full size that the published table uses, and a quick one to see that all of it works."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """starts: of a whole installation; settle_seconds: until memory counts as idle; repetitions: of a lone viewer's
    message; crowds: (viewers that start at once, rounds); runs, run_sessions: instant answers over how many sessions;
    streams: watched at the same time; tokens: of each of them, at 30 a second; pages: requests of the long page."""

    starts: int
    settle_seconds: float
    repetitions: int
    crowds: tuple[tuple[int, int], ...]
    runs: int
    run_sessions: int
    streams: tuple[int, ...]
    tokens: int
    pages: int

    @property
    def sessions(self) -> int:
        """How many sessions all parts need: each phase has its own, so that none inherits another's history."""
        return 2 + sum(viewers for viewers, _ in self.crowds) + self.run_sessions + sum(self.streams)


FULL = Scale(
    starts=3, settle_seconds=10, repetitions=30, crowds=((50, 3), (200, 1)), runs=300, run_sessions=50,
    streams=(100, 200), tokens=150, pages=20,
)  # fmt: skip
QUICK = Scale(
    starts=1, settle_seconds=2, repetitions=3, crowds=((5, 1),), runs=10, run_sessions=5, streams=(5,), tokens=30,
    pages=3,
)  # fmt: skip
