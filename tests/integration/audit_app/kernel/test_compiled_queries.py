"""Compiled statements do what Django's own would, with the values of each call; what cannot work is refused."""

import inspect
from datetime import UTC, datetime, timedelta
from importlib import import_module
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Case, Exists, F, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Lower, Now
from django.utils import timezone

from audit_app.kernel.compiled_queries import (
    CompiledInsert,
    CompiledObjects,
    CompiledQuery,
    CompiledReturning,
    CompiledUpdate,
    Param,
)
from audit_app.kernel.compiled_questions import CompiledQuestion
from audit_app.models import AuditEntry, Event, ProcessLife

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 5, 6, 7, 8, 9, 10, tzinfo=UTC)


def entry(action: str = "A", **fields) -> AuditEntry:
    return AuditEntry.objects.create(action=action, actor="user:1", at=NOW, session_id=uuid4(), **fields)


entries = AuditEntry.objects.filter


def test_rows_are_those_of_each_value() -> None:
    query = CompiledQuery(lambda session_id: AuditEntry.objects.filter(session_id=session_id).values_list("action"))
    for action in ("A", "B"):
        assert query.rows(session_id=entry(action).session_id) == [(action,)]
    assert query.rows(session_id=uuid4()) == []


def test_objects_are_as_django_reads_them(django_assert_num_queries) -> None:
    query = CompiledObjects(
        lambda action, place: AuditEntry.objects.filter(action=action, agent_id__gt=place).order_by("agent_id")
    )
    written = [entry(agent_id=name, details={"n": [1, None]}) for name in ("a", "b", "c")]
    entry("B", agent_id="b")
    with django_assert_num_queries(2):
        assert [found.agent_id for found in query.fetch(action="A", place="a")] == ["b", "c"]
        read = query.first(action="B", place="")
    assert read is not None and read.action == "B"
    again = query.fetch(action="A", place="")[0]
    assert (again.id, again.at, again.details) == (written[0].id, NOW, {"n": [1, None]})
    assert not again._state.adding and not again.get_deferred_fields()
    again.refresh_from_db()


def test_one_question_asks_which_queries_find_a_row(django_assert_num_queries) -> None:
    after = CompiledObjects(lambda place: AuditEntry.objects.filter(agent_id__gt=place).order_by("agent_id")[:5])
    named = CompiledQuery(lambda action: AuditEntry.objects.filter(action=action).values_list("action", "agent_id"))
    late = CompiledQuery(lambda: AuditEntry.objects.filter(at__gt=Now() + timedelta(days=3)).values_list("pk"))
    question = CompiledQuestion([after, named, late])
    entry("A", agent_id="b")
    question.compile()
    with django_assert_num_queries(2):
        assert question.answers(place="a", action="B") == [True, False, False]
        assert question.answers(place="b", action="A") == [False, True, False]
    assert CompiledQuestion([]).answers() == []
    with pytest.raises(TypeError, match="expected the values"):
        question.answers(place="a")


def test_related_objects_come_along(django_assert_num_queries) -> None:
    author = User.objects.create_user("alice")
    group = author.groups.create(name="staff")
    query = CompiledObjects(
        lambda user_id: User.groups.through.objects.select_related("user", "group").filter(user_id=user_id)
    )
    with django_assert_num_queries(1):
        [link] = query.fetch(user_id=author.pk)
        assert (link.user.username, link.group.name) == ("alice", "staff")
    assert link.group == group


def test_an_update_changes_what_matches_and_counts_it() -> None:
    update = CompiledUpdate(
        lambda row, at, who: (AuditEntry.objects.filter(pk=row), {"at": at, "request_id": F("agent_id"), "actor": who})
    )
    one, other = entry(agent_id="x"), entry(agent_id="y")
    later = NOW + timedelta(days=1)
    assert update.run(row=one.pk, at=later, who="user:2") == 1
    assert update.run(row=uuid4(), at=later, who="user:3") == 0
    one.refresh_from_db()
    other.refresh_from_db()
    assert (one.at, one.request_id, one.actor) == (later, "x", "user:2")
    assert (other.at, other.actor) == (NOW, "user:1")


def test_a_returning_update_yields_the_rows_as_they_are_afterwards(django_assert_num_queries) -> None:
    columns = CompiledReturning(
        lambda row, who: (AuditEntry.objects.filter(pk=row).values_list("at", "actor", "details"), {"actor": who})
    )
    objects = CompiledReturning(
        lambda row, who: (
            AuditEntry.objects.filter(pk=row).annotate(
                others=Subquery(entries(actor=who, action="B").order_by("-agent_id").values("agent_id")[:1])
            ),
            {"actor": who},
        )
    )
    one = entry(details={"n": 1})
    entry("B", agent_id="x").save()
    AuditEntry.objects.filter(action="B").update(actor="user:3")
    with django_assert_num_queries(3):
        assert columns.rows(row=one.pk, who="user:2") == [(NOW, "user:2", {"n": 1})]
        assert columns.rows(row=uuid4(), who="user:2") == []
        [found] = objects.fetch(row=one.pk, who="user:3")
    assert (found.pk, found.actor, found.at, found.details, found.others) == (one.pk, "user:3", NOW, {"n": 1}, "x")
    one.refresh_from_db()
    assert one.actor == "user:3"


def test_annotations_come_along() -> None:
    query = CompiledObjects(
        lambda action: entries(action=action).annotate(is_ours=Exists(User.objects.filter(username=OuterRef("actor"))))
    )
    User.objects.create_user("user:1")
    entry()
    [found] = query.fetch(action="A")
    assert (found.action, bool(vars(found)["is_ours"])) == ("A", True)


def test_constants_may_contain_what_has_a_meaning_in_sql() -> None:
    odd = "a'b %s %% \\ \" ?"
    query = CompiledQuery(lambda name: entries(agent_id=odd, action=name, number=None).values_list("agent_id"))
    entry("A'%s", agent_id=odd)
    assert query.rows(name="A'%s") == [(odd,)]
    assert query.rows(name="A") == []


def test_a_value_goes_to_each_of_its_places_and_to_no_constant_that_equals_it() -> None:
    query = CompiledQuery(
        lambda name: AuditEntry.objects.filter(Q(actor=name) | Q(agent_id=name), action="A").values_list("agent_id")
    )
    entry("A", agent_id="A")
    entry("A", agent_id="user:1")
    entry("B", agent_id="user:1")
    assert query.rows(name="A") == [("A",)]
    assert sorted(query.rows(name="user:1")) == [("A",), ("user:1",)]


def test_a_parameter_may_be_named_outside_the_arguments() -> None:
    query = CompiledQuery(lambda: AuditEntry.objects.filter(action=Param("action")).values_list("agent_id"))
    entry("A", agent_id="x")
    assert query.rows(action="A") == [("x",)]


def test_lists_of_a_fixed_length_take_parameters() -> None:
    query = CompiledQuery(
        lambda first, last: AuditEntry.objects.filter(
            action__in=["A", first], at__range=(NOW - timedelta(days=1), last)
        ).values_list("action")
    )
    for action in ("A", "B", "C"):
        entry(action)
    assert sorted(query.rows(first="C", last=NOW)) == [("A",), ("C",)]
    assert query.rows(first="C", last=NOW - timedelta(seconds=1)) == []


def test_numbers_and_conditions_take_parameters() -> None:
    session_id = uuid4()
    CompiledInsert(Event).run([Event(session_id=session_id, seq=1, ts=5, type="T", actor="a", payload={})])
    update = CompiledUpdate(
        lambda session_id, more, name: (
            Event.objects.filter(session_id=session_id, ts__lte=F("seq") + more),
            {"ts": F("ts") + more, "actor": Case(When(type="T", then=name), default=F("actor"))},
        )
    )
    values = {"session_id": session_id, "name": "b"}
    assert update.run(more=3, **values) == 0
    assert update.run(more=4, **values) == 1
    changed = Event.objects.get(session_id=session_id)
    assert (changed.ts, changed.actor) == (9, "b")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda text: entries(action__icontains=text), "'text' cannot be placed in IContains"),
        (lambda text: entries(action__iexact=text), "'text' cannot be placed in IExact"),
        (
            lambda text: AuditEntry.objects.exclude(Q(actor="x") | Q(action__startswith=text)),
            "'text' cannot be placed in StartsWith",
        ),
        (lambda actions: entries(action__in=actions), "'actions' cannot be placed in In"),
        (lambda details: entries(details=details), "'details' cannot be placed in"),
        (lambda name: entries(details__name=name), "'name' cannot be placed in"),
        (lambda name: entries(action=Lower(name)), "'name' cannot be placed in Lower"),
        (lambda part: entries(pk__in=entries(action__contains=part).values("pk")), "Contains"),
        (lambda seconds: entries(at__lt=Now() + timedelta(seconds=seconds)), "seconds"),
        (lambda span: entries(at__lt=Now() + span), "'span' cannot be placed"),
        (lambda count: AuditEntry.objects.all()[:count], "not supported"),
        (lambda action, other: entries(action=action), r"does not contain.*\['other'\]"),
    ],
)
def test_a_parameter_that_cannot_be_placed_is_refused(build, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        CompiledObjects(build).fetch(**dict.fromkeys(inspect.signature(build).parameters, 1))


@pytest.mark.parametrize("values", [{}, {"action": "A"}, {"action": "A", "actor": "a", "more": 1}])
def test_a_call_names_all_values_and_no_others(values: dict[str, object]) -> None:
    query = CompiledObjects(lambda action, actor: AuditEntry.objects.filter(action=action, actor=actor))
    with pytest.raises(TypeError, match=r"expected the values \['action', 'actor'\]"):
        query.fetch(**values)


@pytest.mark.parametrize("value", [None, ["A"], {"a": 1}])
def test_a_value_that_the_database_would_misunderstand_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="'action' must be"):
        CompiledObjects(lambda action: AuditEntry.objects.filter(action=action)).fetch(action=value)


@pytest.mark.parametrize("app", ["agents_app", "audit_app", "sessions_app", "tools_app"])
def test_the_statements_of_each_app_compile(app: str) -> None:
    """A call with a wrong name compiles the statement and executes nothing."""
    module = import_module(f"{app}.hot_queries")
    ways = {CompiledQuery: "rows", CompiledObjects: "fetch", CompiledUpdate: "run", CompiledReturning: "rows"}
    statements = [value for value in vars(module).values() if type(value) in ways]
    for statement in statements:
        with pytest.raises(TypeError, match="expected the values"):
            getattr(statement, ways[type(statement)])(nonsense=1)
    assert statements or app == "audit_app"


def test_a_query_of_columns_makes_no_objects() -> None:
    with pytest.raises(TypeError, match="CompiledQuery"):
        CompiledObjects(lambda: AuditEntry.objects.values_list("action")).fetch()  # type: ignore[type-var]


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
