"""The machine's clock is set while answers stream: run by `make chaos`."""

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.chaos.live_faults_support import open_installation
from tests.fakes.model_server import ModelServer
from tests.support.postgres import find_install, run_postgres
from tests.support.stepped_clock import COMPILER, SteppedClock

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux" or not COMPILER, reason="no C compiler: STEPS OF THE CLOCK NOT TESTED"),
]

TOKENS = 200
ANSWER = f"[[tokens={TOKENS} rate=20]]"
WHOLE = "".join(f"tok{number} " for number in range(TOKENS))


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize("seconds", [3600, -3600], ids=["forward", "back"])
def test_answers_go_on_over_a_step_of_the_clock(
    tmp_path: Path, model_server: ModelServer, seconds: int, database: str
) -> None:
    """Of every process but PostgreSQL's, which may run elsewhere. Nothing is taken for dead, no answer begins again."""
    if database == "postgresql" and find_install() is None:
        pytest.skip("no PostgreSQL for this platform")
    clock = SteppedClock(tmp_path)
    with (
        run_postgres() if database == "postgresql" else nullcontext("") as url,
        open_installation(tmp_path, model_server, url, **clock.environment) as host,
    ):
        answering = [host.send(ANSWER) for _ in range(4)]
        for sent in answering:
            host.wait_text(sent.run_id)
        before = {part["name"]: part["pid"] for part in host.komand.status()["processes"]}
        clock.step(seconds)
        runs = [host.wait_ended(sent.run_id) for sent in answering]
        assert [(run["status"], run["crashes"], run["fence"]) for run in runs] == [("completed", 0, 1)] * 4
        assert {run["answer"] for run in runs} == {WHOLE}
        assert host.komand.ask("what is 17*23?", 60)["success"]  # after a new login: the step ends logins by tokens
        assert {part["name"]: part["pid"] for part in host.komand.status()["processes"]}.items() >= {
            name: pid for name, pid in before.items() if "/" not in name
        }.items()
        assert "died" not in host.komand.log.read_text()
