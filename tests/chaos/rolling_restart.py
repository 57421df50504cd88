"""A rolling restart: web and workers are replaced one after the other while people watch their answers come."""

import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.chaos.clients import Watching
from tests.chaos.live_faults_support import Fire

RUNS = 30
# Long enough to be under way from the first restart to the last.
_ANSWER = "[[tokens={tokens} rate=10]]"


@dataclass(frozen=True)
class Roll:
    """holes: of each answer, the longest time in which its viewer saw nothing new of it; quiet_holes: the same before
    anything was restarted; again: answers whose open words were begun anew."""

    holes: list[float]
    quiet_holes: list[float]
    failed: int
    crashes: int
    again: int


class _Witness:
    """Notes when its viewer saw something of one run."""

    def __init__(self, run_id: UUID) -> None:
        self.run_id = str(run_id)
        self.times: list[float] = []

    def see(self, act: dict[str, Any]) -> None:
        if act.get("run") == self.run_id and act["do"] in ("text", "forget", "answer"):
            self.times.append(time.monotonic())

    def longest(self, since: float, until: float) -> float:
        times = [since, *(at for at in self.times if since < at < until), min(until, self.times[-1])]
        return max(after - before for before, after in zip(times, times[1:], strict=False))


def measure(fire: Fire, tokens: int = 250) -> Roll:
    """Restart everything once under so many answers. Fails when one does not end."""
    fire.wait_well()
    sent = [fire.send(_ANSWER.format(tokens=tokens)) for _ in range(RUNS)]
    witnesses, viewers = [], []
    for one in sent:
        witnesses.append(_Witness(one.run_id))
        viewers.append(fire.watch(one.session_id, witnesses[-1].see))
    for one in sent:
        fire.wait_text(one.run_id)
    time.sleep(0.5)
    quiet_from = time.monotonic()
    time.sleep(3)
    begun = time.monotonic()
    roll_all(fire)
    ended = time.monotonic() + 1.0
    runs = [fire.wait_ended(one.run_id, 120) for one in sent]
    _stop(viewers)
    return Roll(
        holes=[witness.longest(begun, ended) for witness in witnesses],
        quiet_holes=[witness.longest(quiet_from, begun) for witness in witnesses],
        failed=sum(run["status"] != "completed" for run in runs),
        crashes=sum(run["crashes"] for run in runs),
        again=sum(run["fence"] > 1 for run in runs),
    )


def roll_all(fire: Fire) -> None:
    """`manage.py restart`; returns when every process is a new one."""
    before = {name: part["pid"] for name, part in fire.parts().items() if name != "valkey"}
    found = fire.komand.manage("restart", seconds=180)
    assert found.returncode == 0, found.stderr
    after = {name: part["pid"] for name, part in fire.parts().items() if name != "valkey"}
    assert before.keys() == after.keys() and not set(before.values()) & set(after.values())


def _stop(viewers: list[Watching]) -> None:
    for viewer in viewers:
        viewer.stop()
