"""Trees of 51 agents while processes of every kind are killed: the result, the reports and the budgets stay the same.

KOMAND_CHAOS_SECONDS: a tenth of it is for each database (default of all: 600); KOMAND_CHAOS_SEED: repeats the choices.
"""

import random
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.chaos.live_faults_support import Installation, open_installation
from tests.chaos.test_random import SECONDS, SEED
from tests.chaos.trees import AGENTS, Tree, TreeModel
from tests.support.live_server import wait_for
from tests.support.postgres import find_install, open_postgres

_MOST_SECONDS = 6.0  # until another process has claimed what the killed one held
_TREE_SECONDS = 120
_KINDS = ("web", "tools", "tool", "valkey")

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(SECONDS + 600)]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_trees_end_the_same_whatever_is_killed(tmp_path: Path, kind: str) -> None:
    if kind == "postgresql" and find_install() is None:
        pytest.skip("no PostgreSQL for this platform: trees on it are NOT tested")
    sys.stdout.write(f"\ntrees on {kind}, seed {SEED} (KOMAND_CHAOS_SEED={SEED} repeats its choices)\n")
    with (
        TreeModel() as model,
        open_postgres(synchronous_commit="on") if kind == "postgresql" else nullcontext() as server,
        open_installation(tmp_path, model, server.url if server else "") as host,
    ):
        host.post("/api/agents", {"agentId": "trees", "name": "Trees", "toolProfile": "teams", "modelId": "fake"})
        storm = Storm(host)
        try:
            storm.run(SECONDS / 10)
            host.check_invariants()
        except BaseException:
            sys.stdout.write(f"  seed {SEED}\n" + host.komand.log.read_text(errors="replace")[-20_000:])
            raise
        finally:
            sys.stdout.write(f"  {storm.summary}\n")
        assert max(storm.recoveries, default=0.0) <= _MOST_SECONDS


class Storm:
    """One tree after the other, with kills at random moments. recoveries: seconds until what was held was claimed."""

    def __init__(self, host: Installation) -> None:
        self._host = host
        self._choose = random.Random(SEED)
        self._kinds = self._any_kind()
        self._trees = 0
        self._kills: list[str] = []
        self.recoveries: list[float] = []

    def run(self, seconds: float) -> None:
        """Begin trees until the time is over, and check each at its end."""
        deadline = time.monotonic() + seconds
        while not self._trees or time.monotonic() < deadline:
            tree = Tree(self._host, "trees")
            self._trees += 1
            self._kill_during(tree)
            self._host.wait_ended(tree.run_id, _TREE_SECONDS)
            tree.check()

    @property
    def summary(self) -> str:
        slowest = max(self.recoveries, default=0.0)
        return (
            f"{self._trees} trees of {AGENTS} agents, killed: {' '.join(self._kills)}; slowest recovery {slowest:.1f} s"
        )

    def _any_kind(self) -> Iterator[str]:
        while True:
            yield from self._choose.sample(_KINDS, len(_KINDS))

    def _kill_during(self, tree: Tree) -> None:
        """Kill processes until the tree has ended or enough have died.

        Workers die twice at most: a run whose worker has died three times in one model call fails.
        """
        deaths = ["runs", self._choose.choice(["runs", "everything"])]
        plan = [deaths[0], next(self._kinds), deaths[1], next(self._kinds), next(self._kinds)]
        for kind in plan:
            time.sleep(self._choose.uniform(0.2, 2.0))
            if not tree.is_open:
                return
            self._kills.append(kind)
            if kind == "everything":
                self._host.komand.restart()
                continue
            if kind == "runs":
                wait_for(lambda: self._host.pids("runs"), 60, "a runs worker")
            self._kill(kind)

    def _kill(self, kind: str) -> None:
        """Kill a process of a kind and wait until others hold what it held."""
        host, index = self._host, self._choose.randrange(9)
        if not (pids := host.pids(kind)):
            return
        owners = host.owners_of(pids[index % len(pids)])
        host.strike(kind, index=index)
        began = time.monotonic()
        wait_for(lambda: not self._stranded(owners), 60, f"the recovery from a killed {kind}")
        self.recoveries.append(time.monotonic() - began)

    def _stranded(self, owners: list[str]) -> int:
        """Return how many runs and calls belong to dead processes, or were released by them and not yet claimed."""
        dead = ", ".join(f"'{owner}'" for owner in owners) or "NULL"
        [found] = self._host.rows(
            "SELECT (SELECT COUNT(*) FROM komand_run WHERE status = 'running'"
            f" AND (owner IS NULL OR owner IN ({dead})))"
            f" + (SELECT COUNT(*) FROM komand_tool_execution WHERE owner IN ({dead})) AS count"
        )
        return int(found["count"])
