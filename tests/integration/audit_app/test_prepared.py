"""Statements that are compiled once do what Django's own would, each time with the values of that time."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db.models import F

from audit_app.kernel.prepared import PreparedObjects, PreparedQuery, PreparedUpdate
from audit_app.models import AuditEntry

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 5, 6, 7, 8, 9, 10, tzinfo=UTC)


def entry(action: str = "A", **fields) -> AuditEntry:
    return AuditEntry.objects.create(action=action, actor="user:1", at=NOW, session_id=uuid4(), **fields)


def test_rows_are_those_of_each_value() -> None:
    query = PreparedQuery(
        lambda session_id: AuditEntry.objects.filter(session_id=session_id).values_list("action"), uuid4()
    )
    for action in ("A", "B"):
        assert query.rows(entry(action).session_id) == [(action,)]
    assert query.rows(uuid4()) == []


def test_objects_are_as_django_reads_them(django_assert_num_queries) -> None:
    query = PreparedObjects(
        lambda action, place: AuditEntry.objects.filter(action=action, agent_id__gt=place).order_by("agent_id"),
        "an action", "a place",
    )  # fmt: skip
    written = [entry(agent_id=name, details={"n": [1, None]}) for name in ("a", "b", "c")]
    entry("B", agent_id="b")
    with django_assert_num_queries(2):
        assert [found.agent_id for found in query.fetch("A", "a")] == ["b", "c"]
        read = query.first("B", "")
    assert read is not None and read.action == "B"
    again = query.fetch("A", "")[0]
    assert (again.id, again.at, again.details) == (written[0].id, NOW, {"n": [1, None]})
    assert not again._state.adding and not again.get_deferred_fields()
    again.refresh_from_db()


def test_related_objects_come_along(django_assert_num_queries) -> None:
    author = User.objects.create_user("alice")
    group = author.groups.create(name="staff")
    query = PreparedObjects(
        lambda user_id: User.groups.through.objects.select_related("user", "group").filter(user_id=user_id), 987_654
    )
    with django_assert_num_queries(1):
        [link] = query.fetch(author.pk)
        assert (link.user.username, link.group.name) == ("alice", "staff")
    assert link.group == group


def test_an_update_changes_what_matches_and_counts_it() -> None:
    update = PreparedUpdate(
        lambda row, at, who: (AuditEntry.objects.filter(pk=row), {"at": at, "request_id": F("agent_id"), "actor": who}),
        uuid4(), datetime(2001, 2, 3, tzinfo=UTC), "somebody",
    )  # fmt: skip
    one, other = entry(agent_id="x"), entry(agent_id="y")
    later = NOW + timedelta(days=1)
    assert update.run(one.pk, later, "user:2") == 1
    assert update.run(uuid4(), later, "user:3") == 0
    one.refresh_from_db()
    other.refresh_from_db()
    assert (one.at, one.request_id, one.actor) == (later, "x", "user:2")
    assert (other.at, other.actor) == (NOW, "user:1")


def test_a_query_of_columns_makes_no_objects() -> None:
    with pytest.raises(TypeError, match="PreparedQuery"):
        PreparedObjects(lambda: AuditEntry.objects.values_list("action")).fetch()
