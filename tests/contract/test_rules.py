"""The contract of rules: each way to write an object refuses what its model refuses, with the same code."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator, MaxValueValidator, MinValueValidator
from django.db import models, transaction
from django.forms import ModelForm, modelform_factory
from django.test import RequestFactory

from agents_app import services as agents
from agents_app.configuration import agent_files
from agents_app.models import Agent
from agents_app.yaml_documents import UnusableFile
from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.rules import COMMON_CODES, CheckedJSONField, TextListField
from sessions_app.channels import accounts
from sessions_app.models import ChannelAccount
from tests.support.rest import RestCaller, make_agent
from tests.support.rights import make_operator
from tests.support.written_objects import AGENT, CALLBACK, SUBJECTS, Subject

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "world"), pytest.mark.one_database]


@dataclass(frozen=True)
class Refusal:
    """The refusal of a value. code: of the rule or of the error; place: the field; text: as shown."""

    code: str
    place: str
    text: str = ""


def bad_values(subject: Subject, column: Any) -> Iterator[Any]:
    """Yield values that break the rules of a column: outside of its limits, too long, of another type or form."""
    yield from subject.bad.get(column.name, ())
    limits = {type(one): one.limit_value for one in column._validators if hasattr(one, "limit_value")}
    if isinstance(column, models.IntegerField | models.FloatField):
        assert {MinValueValidator, MaxValueValidator} <= {*limits} or _implied(column, limits), f"{column}: no limits"
        yield from (limits.get(MinValueValidator, 0) - 1, limits[MaxValueValidator] + 1, "many")
    elif column.choices:
        yield "wild"
    elif isinstance(column, models.TextField):
        yield "x" * (limits[MaxLengthValidator] + 1)
    elif isinstance(column, models.CharField):
        yield "x" * (column.max_length + 1)
        if isinstance(column, models.SlugField):
            yield "no slug!"
    elif isinstance(column, TextListField):
        yield from ([f"a{n}" for n in range(column.most + 1)], ["x" * (column.longest + 1)], "none", [["a"]])
    elif isinstance(column, CheckedJSONField):
        yield from (7, "text")
    elif isinstance(column, models.BooleanField):
        yield "perhaps"
    else:
        raise AssertionError(f"{column}: no rule, and no reason in `unruled`")


def _implied(column: Any, limits: Mapping[type, Any]) -> bool:
    return isinstance(column, models.PositiveIntegerField) and MaxValueValidator in limits


def broken_rules(column: Any, value: Any) -> list[Refusal]:
    """Return the refusals by the rules of the model's column. Fails if it takes the value."""
    try:
        column.clean(value, None)
    except ValidationError as error:
        return [Refusal(str(one.code), column.name, one.messages[0]) for one in error.error_list]
    raise AssertionError(f"{column} takes {value!r:.60}")


def by_service(subject: Subject, values: dict[str, Any], column: Any) -> Refusal | None:
    assert subject.store
    try:
        subject.store(values)
    except InvalidInput as error:
        return Refusal(error.code, column.name if f"{column.name}: " in error.message else "", error.message)
    return None


def by_rest(subject: Subject, values: dict[str, Any], column: Any) -> Refusal | None:
    caller = RestCaller(User.objects.get(username="op"))
    path = subject.path.format(account=ChannelAccount.objects.get().pk)
    answer = caller.post(path, {_camel(name): value for name, value in subject.sent(values).items()})
    if answer.status < 400:
        return None
    places = [name for name in answer.meta.get("fields", ()) if name.partition(".")[0] == _camel(column.name)]
    is_named = places or f"{column.name}: " in (answer.error or "")
    return Refusal(answer.meta["code"], column.name if is_named else "", answer.error or "")


def by_form(subject: Subject, values: dict[str, Any], column: Any) -> Refusal | None:
    form = form_of(subject, values, column)
    if form.is_valid():
        return None
    found = form.errors.as_data()
    place = column.name if column and column.name in found else next(iter(found))
    return Refusal(str(found[place][0].code), place, found[place][0].messages[0])


def by_import(subject: Subject, values: dict[str, Any], column: Any) -> Refusal | None:
    entry = {**values, "id": values["agent_id"]}
    entry.pop("agent_id")
    try:
        agent_files.plan(yaml.safe_dump({"format": 1, "agents": [entry]}))
    except UnusableFile as error:
        problem = error.problems[0]
        name = problem.place.partition("].")[2]
        return Refusal("", "agent_id" if name == "id" else name, problem.message)
    return None


def form_of(subject: Subject, values: dict[str, Any], column: Any = None) -> ModelForm:
    """Return the admin's form of a new object as a browser would send it. column: the one with a value to refuse."""
    page, names = admin.site._registry.get(subject.model), [one.name for one in subject.columns()]
    stored = ChannelAccount.objects.get() if subject.model is ChannelAccount else None
    relations = {one.name: one for one in subject.model._meta.concrete_fields if one.is_relation}
    given = {name: _related(relations[name], one) if name in relations else one for name, one in subject.good.items()}
    row = stored or subject.model(**given)
    request = RequestFactory().get("/")
    request.user, request.session = User.objects.get(username="root"), {}  # type: ignore[assignment]
    form_class: Any = page.get_form(request, stored) if page else modelform_factory(subject.model, fields=names)
    blank = form_class(instance=row)
    sent = {name: one.prepare_value(blank.get_initial_for_field(one, name)) for name, one in blank.fields.items()}
    if column is not None:
        prepared = blank.fields[column.name].prepare_value(values[column.name])
        sent[column.name] = prepared if isinstance(prepared, str | list) else json.dumps(prepared)
    sent |= subject.shown
    return form_class({name: value for name, value in sent.items() if value not in (None, False)}, instance=row)


def can_send(form: ModelForm, column: Any, value: Any) -> bool:
    """Return whether a browser can send the value: fields of lists make lists of all texts, and boxes are flags."""
    if column.name not in form.fields or isinstance(column, models.BooleanField):
        return False
    if isinstance(form.fields[column.name], forms.JSONField) or not isinstance(column, CheckedJSONField):
        return True
    texts = (
        [text for one in value for text in (one.values() if isinstance(one, dict) else [one])]
        if isinstance(value, list)
        else []
    )
    return bool(texts) and all(isinstance(text, str) for text in texts)


def _related(column: Any, name: str) -> Any:
    return column.related_model.objects.get(
        **{{"agent": "agent_id", "account": "account_id"}.get(column.name, "name"): name}
    )


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


WAYS: dict[str, Callable[[Subject, dict[str, Any], Any], Refusal | None]] = {
    "service": by_service,
    "REST": by_rest,
    "admin": by_form,
    "import": by_import,
}


@pytest.fixture
def world(db: None, settings: Any) -> None:
    """Make the objects that the others refer to, an operator with every right, and a superuser."""
    settings.KOMAND_API_LIMIT = 10_000  # one user sends every bad value of every column
    make_agent("default", is_shared_with_everyone=True)
    accounts.add_account("webhook", "main", config=CALLBACK, secrets={})
    make_operator("op")
    User.objects.create_superuser("root")


def _has_way(subject: Subject, way: str) -> bool:
    has = {"service": subject.store is not None, "REST": bool(subject.path), "import": subject is AGENT}
    return has.get(way, True)


@pytest.mark.parametrize(
    ("subject", "way"),
    [
        pytest.param(subject, way, id=f"{subject.model.__name__}-{way}")
        for subject in SUBJECTS
        for way in WAYS
        if _has_way(subject, way)
    ],
)
def test_each_way_refuses_what_the_model_refuses_with_the_same_code(subject: Subject, way: str) -> None:
    assert _attempt(subject, way, dict(subject.good), None) is None
    shown = form_of(subject, dict(subject.good)) if way == "admin" else None
    wrong = []
    for column in subject.columns():
        for value in bad_values(subject, column):
            if (way == "REST" and column.name in subject.body_lacks) or (shown and not can_send(shown, column, value)):
                continue
            rules = broken_rules(column, value)
            found = _attempt(subject, way, {**subject.good, column.name: value}, column)
            if found is None or not any(_is_same(subject, way, rule, found) for rule in rules):
                wrong.append(f"{column.name} {value!r:.60}: {found}, not {rules}")
    assert not wrong, "\n".join(wrong)


def _attempt(subject: Subject, way: str, values: dict[str, Any], column: Any) -> Refusal | None:
    """Return the refusal, None if there is none. What is written is rolled back."""
    with transaction.atomic():
        found = WAYS[way](subject, values, column)
        transaction.set_rollback(True)
    return found


def _is_same(subject: Subject, way: str, rule: Refusal, found: Refusal) -> bool:
    if way == "import":
        return (found.place, found.text) == (rule.place, rule.text)
    if way == "admin":
        return (found.place, found.code) == (rule.place, rule.code)
    codes = {subject.code, "invalid_input"} if rule.code in COMMON_CODES else {rule.code}
    return found.place in (rule.place, "") and found.code in codes | ({"invalid_input"} if way == "REST" else set())


def test_a_stored_value_outside_of_its_limits_is_named_by_the_form_and_does_not_prevent_other_changes() -> None:
    Agent.objects.update(max_active_seconds=0, retry_first_seconds=-5)
    agents.update_agent(Agent.objects.get(), name="Renamed")
    assert Agent.objects.get(name="Renamed").max_active_seconds == 0
    with pytest.raises(InvalidInput, match="max_tries: Ensure this value is greater than or equal to 1"):
        agents.update_agent(Agent.objects.get(), max_tries=0)
    agent = Agent.objects.get()
    page = admin.site._registry[Agent]
    request = RequestFactory().get("/")
    request.user, request.session = User.objects.get(username="root"), {}  # type: ignore[assignment]
    form_class: Any = page.get_form(request, agent)
    blank = form_class(instance=agent)
    sent = {name: one.prepare_value(blank.get_initial_for_field(one, name)) for name, one in blank.fields.items()}
    form = form_class({name: value for name, value in sent.items() if value not in (None, False)}, instance=agent)
    assert {*form.errors} == {"max_active_seconds", "retry_first_seconds"}
