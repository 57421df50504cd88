"""Processes that die in the middle of answers on all channels: each person is answered once."""

from typing import Any

from tests.fakes.model_server import ModelServer
from tests.installed.installation import Installation
from tests.installed.log import LogReader
from tests.installed.platforms.base import SECONDS, Platform
from tests.installed.test_channels import began
from tests.support.live_server import wait_for

# Five seconds: all runs have begun before the first one ends.
_SLOW = "[[tokens=50 rate=10]]"
_LOST = "is not connected: The process sockets has ended."
_WHOLE = " ".join(f"tok{number}" for number in range(50))


def ask_slowly(platforms: list[Platform[Any]], model: ModelServer) -> dict[Platform[Any], str]:
    """Have one person a platform ask; return them when all answers are being written."""
    asked = {platform: platform.person() for platform in platforms}
    for platform, person in asked.items():
        platform.say(person, f"a long story for {person}, please {_SLOW}")
    for person in asked.values():
        began(model, f"a long story for {person}, ")
    return asked


def expect_once(asked: dict[Platform[Any], str], answer: str) -> None:
    """Wait for the answers, and for that to a further message: it comes behind all that was sent before."""
    for platform, person in asked.items():
        platform.wait_for(person, [answer])
        platform.say(person, 'thanks [[text="Bye."]]')
    for platform, person in asked.items():
        platform.wait_for(person, [answer, "Bye."])


def test_answers_of_a_killed_worker_are_written_by_another(
    platforms: list[Platform[Any]], installation: Installation, model_server: ModelServer, log: LogReader
) -> None:
    log.expect("agents_app.runs.reaper: the worker %s of run %s died; the run was released", "the worker is killed")
    asked = ask_slowly(platforms, model_server)
    installation.kill("runs")
    expect_once(asked, _WHOLE)


def test_messages_that_come_while_connections_are_lost_are_answered(
    platforms: list[Platform[Any]], installation: Installation, model_server: ModelServer, log: LogReader
) -> None:
    log.expect(f"sessions_app.channels.connections.holder: %s {_LOST}", "the process is killed")
    asked, before = ask_slowly(platforms, model_server), installation.read_log().count(_LOST)
    installation.kill("sockets")
    # What signal-cli writes to a connection in the moment in which that is lost, it does not write again.
    wait_for(lambda: installation.read_log().count(_LOST) > before, SECONDS, "the loss of the connections")
    late = {platform: platform.person() for platform in platforms}
    for platform, person in late.items():
        platform.say(person, 'am I heard? [[text="Yes."]]')
    expect_once(asked, _WHOLE)
    expect_once(late, "Yes.")
