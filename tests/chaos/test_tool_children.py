"""Children of the tools worker that die while they work, and then Valkey: calls are taken again.

Takes a minute or two: run by `make chaos`.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.chaos.live_faults_support import Installation, Sent, open_installation
from tests.chaos.slow_site import SlowSite
from tests.fakes.model_server import ModelServer
from tests.support.live_server import wait_for

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

_ROUNDS = 4
_CALLS = 3  # of four children
_PAGE_SECONDS = 6.0  # so that all calls are being made at once
_UNTIL_VALKEY_SECONDS = 4.0
_MOST_SECONDS = 20.0  # eight on a machine that has nothing else to do
_HELD_CALLS = 24  # each child waits for six pages, 15 seconds each


@pytest.fixture(scope="module")
def site() -> Iterator[SlowSite]:
    with SlowSite(_PAGE_SECONDS) as site:
        yield site


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, model_server: ModelServer, site: SlowSite) -> Iterator[Installation]:
    environment = {"KOMAND_FETCH_ALLOW_PRIVATE": site.authority}
    with open_installation(tmp_path_factory.mktemp("children"), model_server, **environment) as host:
        yield host


def call(host: Installation, site: SlowSite) -> Sent:
    return host.send(f'[[tool=web_fetch args={{"url":"{site.fresh_url}"}}]]')


def kill_children_then_valkey(host: Installation, site: SlowSite) -> float:
    """Return the seconds from the start of the next Valkey until a worker takes a call."""
    before = site.count
    cut = [call(host, site) for _ in range(_CALLS)]
    wait_for(lambda: site.count >= before + _CALLS, 60, "calls that are being made")
    for pid in host.pids("tool"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    time.sleep(_UNTIL_VALKEY_SECONDS)
    killed = host.strike("valkey")
    host.komand.wait_healthy("valkey", other_than=killed)
    begun = time.monotonic()
    new = call(host, site)
    wait_for(lambda: host.executions(new.run_id)[:1] and host.executions(new.run_id)[0]["attempts"], 90, "a worker")
    took = time.monotonic() - begun
    for sent in (*cut, new):
        assert host.wait_ended(sent.run_id, 90)["status"] == "completed"
        [execution] = host.executions(sent.run_id)
        assert (execution["status"], 1 <= execution["attempts"] <= 3) == ("Completed", True)
    return took


def test_calls_are_taken_again_after_children_and_valkey_were_killed(host: Installation, site: SlowSite) -> None:
    took = []
    for _ in range(_ROUNDS):
        host.wait_well()
        took.append(kill_children_then_valkey(host, site))
    sys.stdout.write(f"\na call is taken after {', '.join(f'{seconds:.1f}' for seconds in took)} s\n")
    host.wait_well()
    host.check_invariants()
    assert max(took) <= _MOST_SECONDS


def test_a_call_that_no_worker_takes_is_named(host: Installation, site: SlowSite) -> None:
    """All children wait for pages that do not come."""
    host.wait_well()
    site.seconds = 600.0
    sent = [call(host, site) for _ in range(_HELD_CALLS)]
    wait_for(lambda: "tool calls that no worker has taken for 30 s" in host.komand.log.read_text(), 120, "the log")
    doctor = host.komand.manage("doctor")
    assert doctor.returncode == 1 and "calls that no worker has taken for 30 s: " in doctor.stdout
    site.leave.set()
    assert {host.wait_ended(one.run_id, 120)["status"] for one in sent} == {"completed"}
    assert "calls that no worker has taken" not in host.komand.manage("doctor").stdout
