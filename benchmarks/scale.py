"""The size of a measurement: full for the published table, quick to test that everything works."""

from dataclasses import dataclass

SURFACES = 9  # surfaces that stream answers


@dataclass(frozen=True)
class Scale:
    """Numbers of one measurement.

    starts: starts of a whole installation.
    settle_seconds: time until memory counts as idle.
    repetitions: messages of a single viewer.
    drafts: messages of each kind in chats, one after the other: two seconds each, four in a group.
    bursts: (viewers that start at once, rounds).
    runs, run_sessions: instant answers, and the sessions that share them.
    streams, tokens: concurrent streams, and the tokens of each at 30 a second.
    pages: requests of the long page.
    webhooks: inbound messages.
    surfaces: streams over each surface.
    fanout: viewers of one session.
    watched: (viewers, live runs that they share).
    idle: viewers of as many sessions.
    stalled: viewers that never read.
    growth: (turns of the small and of the large database, rounds).
    """

    starts: int
    settle_seconds: float
    repetitions: int
    drafts: int
    bursts: tuple[tuple[int, int], ...]
    runs: int
    run_sessions: int
    streams: tuple[int, ...]
    tokens: int
    pages: int
    webhooks: int
    surfaces: int
    fanout: int
    watched: tuple[int, int]
    idle: int
    stalled: int
    growth: tuple[int, int, int]

    @property
    def sessions(self) -> int:
        """The number of sessions of all parts. Each phase has its own, so that none inherits the history of another."""
        bursts = sum(viewers for viewers, _ in self.bursts)
        streams = sum(self.streams) + 2 * max(self.streams) + SURFACES * self.surfaces
        return 4 + bursts + self.run_sessions + streams + self.watched[1] + self.idle


FULL = Scale(
    starts=3,
    settle_seconds=10,
    repetitions=20,
    drafts=8,
    bursts=((50, 3), (200, 1)),
    runs=300,
    run_sessions=50,
    streams=(100, 200),
    tokens=150,
    pages=20,
    webhooks=400,
    surfaces=40,
    fanout=500,
    watched=(1000, 50),
    idle=500,
    stalled=50,
    growth=(6_000, 1_000_000, 15),
)
QUICK = Scale(
    starts=1,
    settle_seconds=2,
    repetitions=3,
    drafts=2,
    bursts=((5, 1),),
    runs=10,
    run_sessions=5,
    streams=(5,),
    tokens=30,
    pages=3,
    webhooks=40,
    surfaces=5,
    fanout=20,
    watched=(20, 4),
    idle=20,
    stalled=3,
    growth=(6_000, 20_000, 3),
)
