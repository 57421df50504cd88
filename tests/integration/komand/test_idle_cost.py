"""The work that each process does every second, when there is nothing to do."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
from django.utils import timezone

from agents_app.runs.reaper import Reaper
from audit_app.chain import sealer
from audit_app.kernel.ids import first_id_at
from audit_app.retention import list_rules
from sessions_app.attachments import records
from sessions_app.channels.outbound import transitions
from sessions_app.models import Turn
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


def test_an_idle_pass_of_the_reaper_makes_one_statement(
    valkey: object, django_assert_num_queries: Callable[[int], AbstractContextManager[object]]
) -> None:
    session = make_session(make_user("alice"))
    Turn.objects.create(session=session, ordinal=0, part=0, role="user", content="hello", created_at=timezone.now())
    reaper = Reaper()
    for _ in list_rules():
        reaper.sweep()
    Turn.objects.update(id=first_id_at(timezone.now() - timedelta(hours=1)))
    reaper.sweep()  # the search looks at the newest messages again for half a minute, then rarely
    for sweeping in (reaper, Reaper(lambda run_id: None)):
        sweeping.sweep()  # is compiled
        with django_assert_num_queries(1):
            sweeping.sweep()
