"""The work that each process does every second, when there is nothing to do."""

from collections.abc import Callable

import pytest

from agents_app.runs.reaper import Reaper
from audit_app.chain import sealer
from audit_app.retention import list_rules
from sessions_app.attachments import records
from sessions_app.channels.outbound import transitions
from sessions_app.schedules.starter import Starter
from tests.support.built_statements import built_statements
from tests.support.rest import make_session, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

EVERY_SECOND: dict[str, Callable[[], object]] = {
    "the sealer": sealer.seal_next,
    "the sender": lambda: transitions.list_due(200),
    "the fetcher": lambda: records.list_due(4),
    "the starter of schedules": Starter().start_part,
}


def test_an_idle_second_builds_no_query(valkey: object) -> None:
    """Django needs ten times as long to build these queries as the database to answer them."""
    make_session(make_user("alice"))
    reaper = Reaper()
    passes = {**EVERY_SECOND, "the reaper": reaper.sweep}
    for _ in list_rules():  # each pass of the reaper applies one more rule of retention, then none for ten minutes
        for run in passes.values():
            run()
    with built_statements() as built:
        for run in passes.values():
            run()
    assert built == []
