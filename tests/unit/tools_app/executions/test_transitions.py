"""Allowed transitions of an execution, and the rescue of a running one."""

from datetime import timedelta

import pytest

from tools_app import conf
from tools_app.executions.sweeper import Rescue, choose_rescue
from tools_app.executions.transitions import SOURCES
from tools_app.types import Effect, ExecutionStatus


def test_every_status_can_be_reached_and_no_terminal_one_is_left():
    assert set(SOURCES) == set(ExecutionStatus)
    assert not [source for sources in SOURCES.values() for source in sources if source.is_terminal]


LIMIT, LATE = 10, 10 + conf.GRACE_SECONDS + conf.KILL_SLACK_SECONDS


@pytest.mark.parametrize(
    ("effect", "attempts", "ran", "is_dead", "rescue"),
    [
        (Effect.ONCE, 1, 1, False, Rescue.NOTHING),
        (Effect.ONCE, 1, LIMIT + 1, False, Rescue.NOTHING),
        (Effect.ONCE, 1, LATE, False, Rescue.TIME_OUT),
        (Effect.READ, 1, LATE, False, Rescue.TIME_OUT),
        (Effect.ONCE, 1, LIMIT, True, Rescue.TIME_OUT),
        (Effect.READ, 1, LIMIT, True, Rescue.TIME_OUT),
        (Effect.ONCE, 1, 3, True, Rescue.MARK_UNKNOWN),
        (Effect.READ, 1, 3, True, Rescue.RUN_AGAIN),
        (Effect.KEYED, 2, 3, True, Rescue.RUN_AGAIN),
        (Effect.READ, conf.MAX_ATTEMPTS, 3, True, Rescue.GIVE_UP),
        (Effect.ONCE, conf.MAX_ATTEMPTS, 3, True, Rescue.MARK_UNKNOWN),
    ],
)
def test_a_running_execution_gets_the_rescue_it_needs(effect, attempts, ran, is_dead, rescue):
    assert choose_rescue(effect, attempts, timedelta(seconds=ran), LIMIT, is_dead=is_dead) is rescue
