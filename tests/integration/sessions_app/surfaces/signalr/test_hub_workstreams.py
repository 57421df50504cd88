"""The hub's methods for workstreams: list them, write to one, pause and stop it."""

from typing import Any

import pytest

from agents_app.models import Run
from agents_app.services import NewChild, start_child
from agents_app.types import RunStatus
from agents_app.types.child_runs import ChildSpec
from audit_app.kernel.errors import Conflict, InvalidInput
from audit_app.kernel.ids import new_id
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.signalr import commands
from tests.support.rest import make_run, make_session, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


def test_a_client_writes_to_a_workstream_steers_and_stops_it() -> None:
    alice = make_user("alice")
    session, me = make_session(alice), Principal(alice, "jwt")
    root = make_run(session, RunStatus.WAITING, waiting_on="children")
    prices = start_child(NewChild(new_id(), root.pk, "prices", ChildSpec(name="Prices")))
    deep = start_child(NewChild(new_id(), prices.pk, "deep", ChildSpec(name="Deep one")))

    def listed() -> dict[str, dict[str, Any]]:
        return {each["runId"]: each for each in commands.list_workstreams(me, session.key)}

    shown = listed()[str(deep.pk)]
    assert (shown["path"], shown["parentRunId"], shown["isPaused"]) == (["Prices", "Deep one"], str(prices.pk), False)
    for _ in range(2):  # the second one has the same key
        assert commands.message_run(me, str(deep.pk), "Look in May.", "k1") == str(deep.pk)
    commands.steer_run(me, str(deep.pk), "add_constraint", "Be brief")
    commands.steer_run(me, str(deep.pk), "pause_requested")
    assert [*deep.messages.values_list("kind", "text")][1:] == [
        ("person", "Look in May."),
        ("directive", "Further constraint: Be brief"),
    ]
    assert listed()[str(deep.pk)]["isPaused"]
    with pytest.raises(Conflict) as refused:
        commands.message_run(me, str(root.pk), "Hi")
    assert refused.value.code == "not_a_workstream"
    with pytest.raises(InvalidInput):
        commands.message_run(me, str(deep.pk), "")
    assert commands.cancel(me, session.key, str(deep.pk)) == 1
    assert [*listed()] == [str(prices.pk)] and Run.objects.get(pk=root.pk).ended_at is None
