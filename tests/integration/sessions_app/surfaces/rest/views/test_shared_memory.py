"""Shared memory over REST: of a session, of a tree of runs and of a network, for the user of the session alone."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from agents_app.models import Run
from audit_app.models import AuditEntry
from sessions_app.models import Session
from tests.support.rest import RestCaller, make_run, make_session, make_user
from tools_app.storage import shared_memory
from tools_app.storage.shared_memory import Space

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

NETWORK = {"network": {"name": "net", "version": 1, "definition": "name: net\ntasks:\n- name: a\n", "context": {}}}


@pytest.fixture
def session(alice: User) -> Session:
    return make_session(alice)


@pytest.fixture
def call(alice: User) -> RestCaller:
    return RestCaller(alice)


def child_of(parent: Run, **fields: Any) -> Run:
    session = Session.objects.get(pk=parent.conversation_id)
    root_id = parent.root_id or parent.pk
    return make_run(session, parent=parent, root_id=root_id, depth=parent.depth + 1, **fields)


def keys(answer: Any) -> list[str]:
    return [row["key"] for row in answer.data]


def test_values_of_a_session_are_stored_read_and_deleted(call: RestCaller, session: Session) -> None:
    place = f"sessions/{session.key}/shared-memory"
    stored = call.put(f"{place}/research/web.de", {"value": {"found": 3}}).data
    assert (stored["key"], stored["value"], stored["version"]) == ("research/web.de", {"found": 3}, 1)
    assert stored["writer"] == f"user:{session.owner_id}"
    assert call.get(f"{place}/research/web.de").data == stored
    call.put(f"sessions/{session.pk}/shared-memory/plan", {"value": "a"})
    assert keys(call.get(place)) == ["plan", "research/web.de"]
    assert keys(call.get(f"{place}?pattern=research*")) == ["research/web.de"]
    assert call.delete(f"{place}/plan").status == 200
    assert call.delete(f"{place}/plan").meta["code"] == call.get(f"{place}/plan").meta["code"] == "unknown_key"
    audited = AuditEntry.objects.filter(action__startswith="SharedValue").order_by("id")
    assert [entry.action for entry in audited] == ["SharedValueStored", "SharedValueStored", "SharedValueDeleted"]
    assert audited[0].details["key"] == "research/web.de" and audited[0].actor == f"user:{session.owner_id}"


def test_a_value_that_changed_meanwhile_is_kept(call: RestCaller, session: Session) -> None:
    place = f"sessions/{session.key}/shared-memory/plan"
    assert call.put(place, {"value": 1, "expectedVersion": 0}).data["version"] == 1
    refused = call.put(place, {"value": 2, "expectedVersion": 0})
    assert (refused.status, refused.meta["code"], refused.meta["version"]) == (409, "version_mismatch", 1)
    assert call.put(place, {"value": None, "expectedVersion": 1}).data["value"] is None
    assert call.put(place, {"value": "x" * 110_000}).meta["code"] == "shared_value_limit"
    assert call.put(f"sessions/{session.key}/shared-memory/{'k' * 121}", {"value": 1}).status == 400
    assert call.get(place).data["version"] == 2


def test_what_no_database_stores_is_refused(call: RestCaller, session: Session) -> None:
    place = f"sessions/{session.key}/shared-memory/plan"
    for value in ("a\0b", {"\0": 1}, [["\0"]]):
        refused = call.put(place, {"value": value})
        assert refused.status == 400 and "NUL" in refused.error
    assert call.put(place, {"value": "\\u0000"}).data["value"] == "\\u0000"
    scheduled = {"taskId": "r", "prompt": "R", "cron": "0 9 * * *", "networkContext": {"a": "\0"}}
    assert call.post("cron", scheduled).status == 400


def test_runs_have_the_memory_of_their_tree_or_network(call: RestCaller, session: Session) -> None:
    alone = make_run(session)
    network = make_run(session, options=NETWORK)
    task = child_of(network, kind="task", workstream="a")
    below = child_of(task, kind="workstream", workstream="b")
    shared_memory.write(Space("network", network.pk), "facts", "of the network", writer="default/a")
    shared_memory.write(Space("run", network.pk), "notes", "of the tree", writer="default/b")
    for run in (network, task, below):
        assert keys(call.get(f"runs/{run.pk}/shared-memory")) == ["facts"]
        assert keys(call.get(f"runs/{run.pk}/shared-memory?space=run")) == ["notes"]
    assert call.get(f"runs/{below.pk}/shared-memory/facts").data["writer"] == "default/a"
    assert keys(call.get(f"runs/{alone.pk}/shared-memory")) == []
    assert call.get(f"runs/{alone.pk}/shared-memory?space=network").meta["code"] == "not_a_network"
    assert call.put(f"runs/{below.pk}/shared-memory/facts", {"value": "mine"}).data["version"] == 2
    assert call.delete(f"runs/{task.pk}/shared-memory/notes?space=run").status == 200
    assert shared_memory.find(Space("run", network.pk)) == ()


def test_others_find_nothing_and_write_nothing(session: Session) -> None:
    run, ben = make_run(session), RestCaller(make_user("ben"))
    shared_memory.write(Space("run", run.pk), "a", 1, writer="default")
    shared_memory.write(Space("session", session.pk), "a", 1, writer="default")
    for place in (f"sessions/{session.key}/shared-memory", f"runs/{run.pk}/shared-memory"):
        answers = [ben.get(place), ben.get(f"{place}/a"), ben.put(f"{place}/a", {"value": 2}), ben.delete(f"{place}/a")]
        assert [answer.status for answer in answers] == [404] * 4
    for space in (Space("run", run.pk), Space("session", session.pk)):
        assert [value.value for value in shared_memory.find(space)] == [1]


@pytest.mark.parametrize("key", ["history", "notes/history", "notes/bind", "a/pins/b", "a/shared-memory/b"])
def test_a_key_may_end_like_another_address(call: RestCaller, session: Session, key: str) -> None:
    place = f"sessions/{session.key}/shared-memory/{key}"
    assert call.put(place, {"value": 1}).data["key"] == key
    assert call.get(place).data["value"] == 1
    assert call.delete(place).status == 200
