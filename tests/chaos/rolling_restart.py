"""A rolling restart: web and workers are replaced one after the other while viewers watch their answers."""

import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.chaos.clients import Watching
from tests.chaos.live_faults_support import Installation

RUNS = 30
# Long enough to be under way from the first restart to the last.
_ANSWER = "[[tokens={tokens} rate=10]]"


@dataclass(frozen=True)
class Roll:
    """holes: of each answer, the longest time in which its viewer saw nothing new of it; quiet_holes: the same before
    anything was restarted; again: answers whose open text was started again."""

    holes: list[float]
    quiet_holes: list[float]
    failed: int
    crashes: int
    again: int


class _Witness:
    """Records the times at which its viewer got something of one run."""

    def __init__(self, run_id: UUID) -> None:
        self.run_id = str(run_id)
        self.times: list[float] = []

    def see(self, act: dict[str, Any]) -> None:
        if act.get("run") == self.run_id and act["do"] in ("text", "forget", "answer"):
            self.times.append(time.monotonic())

    def longest(self, since: float, until: float) -> float:
        times = [since, *(at for at in self.times if since < at < until), min(until, self.times[-1])]
        return max(after - before for before, after in zip(times, times[1:], strict=False))


def measure(host: Installation, tokens: int = 250) -> Roll:
    """Restart everything once under so many answers. Raises AssertionError if one does not end."""
    host.wait_well()
    sent = [host.send(_ANSWER.format(tokens=tokens)) for _ in range(RUNS)]
    witnesses, viewers = [], []
    for one in sent:
        witnesses.append(_Witness(one.run_id))
        viewers.append(host.watch(one.session_id, witnesses[-1].see))
    for one in sent:
        host.wait_text(one.run_id)
    time.sleep(0.5)
    quiet_from = time.monotonic()
    time.sleep(3)
    begun = time.monotonic()
    roll_all(host)
    ended = time.monotonic() + 1.0
    runs = [host.wait_ended(one.run_id, 120) for one in sent]
    _stop(viewers)
    return Roll(
        holes=[witness.longest(begun, ended) for witness in witnesses],
        quiet_holes=[witness.longest(quiet_from, begun) for witness in witnesses],
        failed=sum(run["status"] != "completed" for run in runs),
        crashes=sum(run["crashes"] for run in runs),
        again=sum(run["fence"] > 1 for run in runs),
    )


def roll_all(host: Installation) -> None:
    """Run `manage.py restart`, and check that every process is a new one."""
    before = {name: part["pid"] for name, part in host.parts().items() if part["pid"] and name != "valkey"}
    found = host.komand.manage("restart", seconds=180)
    assert found.returncode == 0, found.stderr
    after = {name: part["pid"] for name, part in host.parts().items() if part["pid"] and name != "valkey"}
    assert before.keys() == after.keys() and not set(before.values()) & set(after.values())


def _stop(viewers: list[Watching]) -> None:
    for viewer in viewers:
        viewer.stop()
