"""Statements that are compiled once do what Django's own would, each time with the values of that time."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F, Value
from django.db.models.functions import Now
from django.utils import timezone

from audit_app.kernel.compiled_queries import CompiledInsert, CompiledObjects, CompiledQuery, CompiledUpdate
from audit_app.models import AuditEntry, Event, ProcessLife

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 5, 6, 7, 8, 9, 10, tzinfo=UTC)


def entry(action: str = "A", **fields) -> AuditEntry:
    return AuditEntry.objects.create(action=action, actor="user:1", at=NOW, session_id=uuid4(), **fields)


def test_rows_are_those_of_each_value() -> None:
    query = CompiledQuery(
        lambda session_id: AuditEntry.objects.filter(session_id=session_id).values_list("action"), uuid4()
    )
    for action in ("A", "B"):
        assert query.rows(entry(action).session_id) == [(action,)]
    assert query.rows(uuid4()) == []


def test_objects_are_as_django_reads_them(django_assert_num_queries) -> None:
    query = CompiledObjects(
        lambda action, place: AuditEntry.objects.filter(action=action, agent_id__gt=place).order_by("agent_id"),
        "an action",
        "a place",
    )
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
    query = CompiledObjects(
        lambda user_id: User.groups.through.objects.select_related("user", "group").filter(user_id=user_id), 987_654
    )
    with django_assert_num_queries(1):
        [link] = query.fetch(author.pk)
        assert (link.user.username, link.group.name) == ("alice", "staff")
    assert link.group == group


def test_an_update_changes_what_matches_and_counts_it() -> None:
    update = CompiledUpdate(
        lambda row, at, who: (AuditEntry.objects.filter(pk=row), {"at": at, "request_id": F("agent_id"), "actor": who}),
        uuid4(),
        datetime(2001, 2, 3, tzinfo=UTC),
        "somebody",
    )
    one, other = entry(agent_id="x"), entry(agent_id="y")
    later = NOW + timedelta(days=1)
    assert update.run(one.pk, later, "user:2") == 1
    assert update.run(uuid4(), later, "user:3") == 0
    one.refresh_from_db()
    other.refresh_from_db()
    assert (one.at, one.request_id, one.actor) == (later, "x", "user:2")
    assert (other.at, other.actor) == (NOW, "user:1")


def test_a_query_of_columns_makes_no_objects() -> None:
    with pytest.raises(TypeError, match="CompiledQuery"):
        CompiledObjects(lambda: AuditEntry.objects.values_list("action")).fetch()


def new_entry(action: str, **fields) -> AuditEntry:
    return AuditEntry(action=action, actor="user:1", at=NOW, details={"n": [1, None, "é"]}, **fields)


def test_inserted_rows_are_as_django_writes_them(django_assert_num_queries) -> None:
    insert = CompiledInsert(AuditEntry)
    rows = [new_entry("A", session_id=uuid4(), agent_id="x"), new_entry("B")]
    with django_assert_num_queries(1):
        insert.run(rows)
    insert.run([])
    assert not rows[0]._state.adding
    for row in rows:
        kept = AuditEntry.objects.get(pk=row.pk)
        assert {field.attname: getattr(kept, field.attname) for field in AuditEntry._meta.fields} == {
            field.attname: getattr(row, field.attname) for field in AuditEntry._meta.fields
        }


def test_many_rows_take_several_statements() -> None:
    session_id = uuid4()
    events = [Event(session_id=session_id, seq=n, ts=n, type="T", actor="a", payload={"n": n}) for n in range(1, 46)]
    CompiledInsert(Event).run(events)
    kept = Event.objects.filter(session_id=session_id)
    assert [event.payload["n"] for event in kept.order_by("seq")] == list(range(1, 46))
    assert len({event.pk for event in kept}) == 45  # made up by the database


def test_a_key_that_is_taken_is_refused() -> None:
    insert, row = CompiledInsert(AuditEntry), new_entry("A")
    insert.run([row])
    with pytest.raises(IntegrityError), transaction.atomic():
        insert.run([AuditEntry(id=row.id, action="B", actor="user:1", at=NOW)])
    assert AuditEntry.objects.get(pk=row.pk).action == "A"


def test_a_fixed_column_is_the_databases_to_fill() -> None:
    before = timezone.now() - timedelta(seconds=5)
    insert = CompiledInsert(AuditEntry, at=Now())
    rows = [new_entry("A"), new_entry("B")]
    insert.run(rows)
    for row in rows:
        row.refresh_from_db()
        assert before < row.at < timezone.now() + timedelta(seconds=5)  # not the object's own
    with pytest.raises(TypeError, match="action"):
        CompiledInsert(AuditEntry, action=Value("A")).run([new_entry("A")])


def test_what_a_field_fills_in_itself_is_filled_in() -> None:
    life = ProcessLife(id=uuid4(), name="runs", host="here", pid=1, lock_key=987_654)
    CompiledInsert(ProcessLife).run([life])
    assert life.started_at == ProcessLife.objects.get(pk=life.pk).started_at
