"""The contract of rules: each way to write an object refuses what its model refuses, with the same code."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
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
from agents_app.configuration import agent_files, prompt_templates
from agents_app.costs import cost_settings
from agents_app.models import Agent, ModelPrice, ModelProvider, PromptTemplate, StoredNetwork, UserCostCap
from agents_app.network_runs import library
from agents_app.types.prices import Price
from agents_app.yaml_documents import UnusableFile
from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.rules import COMMON_CODES, CheckedJSONField, TextListField
from sessions_app.channels import accounts, routes
from sessions_app.models import ChannelAccount, ChannelRoute, Schedule
from sessions_app.schedules import plans
from tests.support.rest import RestCaller, make_agent
from tests.support.rights import make_operator
from tools_app.mcp_client import servers
from tools_app.models import Credential, McpServer
from tools_app.secrets import credentials

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "world"), pytest.mark.one_database]

NETWORK = "name: {name}\ntasks:\n- name: first\n  agent: default\n"
CALLBACK = {"callback_url": "https://example.org/hook"}
ONLY_LONG = "a text of any length is stored"


@dataclass(frozen=True)
class Refusal:
    """The refusal of a value. code: of the rule or of the error; place: the field; text: as shown."""

    code: str
    place: str
    text: str = ""


@dataclass(frozen=True)
class Subject:
    """An object that users write.

    good: values of a valid one, by column.
    bad: more values that a column refuses, besides those that follow from its type.
    unruled: columns that take any value of their type, with the reason.
    code: of the service's error if the rule has none of its own.
    store: writes a row with these values.
    path, sent: of REST; sent returns the body. body_lacks: columns that no body has.
    shown: what a form takes besides columns.
    """

    model: type[models.Model]
    good: Mapping[str, Any]
    store: Callable[[dict[str, Any]], Any] | None = None
    path: str = ""
    sent: Callable[[dict[str, Any]], dict[str, Any]] = dict
    bad: Mapping[str, list[Any]] = field(default_factory=dict)
    unruled: Mapping[str, str] = field(default_factory=dict)
    body_lacks: tuple[str, ...] = ()
    shown: Mapping[str, Any] = field(default_factory=dict)
    code: str = "invalid_input"

    def columns(self) -> Iterator[Any]:
        """Yield the columns that people write."""
        for column in self.model._meta.concrete_fields:
            is_automatic = getattr(column, "auto_now", False) or getattr(column, "auto_now_add", False)
            is_written = column.editable and not (column.is_relation or column.primary_key or is_automatic)
            if is_written and column.name not in self.unruled:
                yield column


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


def store_network(values: dict[str, Any]) -> None:
    library.create(values["definition"], Agent.objects.all(), owner_id=None)


def store_schedule(values: dict[str, Any]) -> None:
    given = {name: value for name, value in values.items() if name in plans.Plan.__annotations__}
    agent, owner = Agent.objects.get(), User.objects.get(username="op")
    plans.create(values["task_id"], plans.Plan(**given), agent=agent, owner=owner, actor="user:1")


def store_route(values: dict[str, Any]) -> None:
    account, agent = ChannelAccount.objects.get(), Agent.objects.get()
    routes.save(ChannelRoute(**{**values, "account": account, "agent": agent}))


def store_credential(values: dict[str, Any]) -> None:
    owner_id = User.objects.get(username="op").pk
    credentials.store_credential(values["name"], "a-long-value", owner_id=owner_id, hosts=values["hosts"])
    credentials.share_credential(values["name"], values["agents"], owner_id=owner_id)


def store_price(values: dict[str, Any]) -> None:
    price = Price(values["input_price"], values["output_price"], values["cached_input_price"])
    cost_settings.set_price(values["provider"], values["model"], price)


PATTERNS = {name: ["((("] for name in ("allowed_tools", "denied_tools", "always_ask", "auto_approve")}
HOSTS = {name: ["https://a.example/b"] for name in ("allowed_hosts", "denied_hosts")}
AGENT = Subject(
    Agent,
    good={"agent_id": "helper", "name": "Helper", "provider": "demo"},
    store=lambda values: agents.create_agent(**values),
    path="agents",
    sent=lambda values: {("model_provider" if n == "provider" else n): v for n, v in values.items()},
    bad={
        "agent_id": ["import"],
        "output_schema": [{"type": "nothing"}],
        "budgets": [{"costPerHour": -1}, {"costPerHour": 10**13}, {"actionsPerHour": 1.5}, {"costPerYear": 1}],
        "fallbacks": [[{"provider": [], "model": ""}], [{"provider": f"p{n}", "model": ""} for n in range(6)]],
        **{name: [texts] for name, texts in (PATTERNS | HOSTS).items()},
    },
    unruled={
        "description": ONLY_LONG,
        "system_prompt": ONLY_LONG,
        "owner_id": "set to the user who creates it",
        "retired_at": "set by retiring it",
        "is_shared_with_everyone": "a part of `sharing`",
    },
    body_lacks=("retry_first_seconds", "retry_max_seconds", "mcp_servers_mode", "mcp_servers"),
)
SUBJECTS = (
    AGENT,
    Subject(
        McpServer,
        good={"name": "files", "command": "files-server"},
        store=lambda values: servers.add_server(**values),
        path="mcp/servers",
        bad={"name": ["Bad Name"], "environment": [{"A": []}], "headers": [{"A": "b\nc"}]},
        code="bad_server",
    ),
    Subject(
        Credential,
        good={"name": "weather", "hosts": ["api.example.com"], "agents": ["default"]},
        store=store_credential,
        path="credentials",
        sent=lambda values: {**values, "value": "a-long-value"},
        shown={"value": "a-long-value"},
        bad={"name": ["a b"], "hosts": [["https://a.example/b"]], "agents": [["a b"]]},
    ),
    Subject(
        ChannelAccount,
        good={"channel": "webhook", "account_id": "second", "config": CALLBACK, "access": "paired"},
        store=lambda values: accounts.add_account(**{"secrets": {}, **values}),
        unruled={
            "config": "its adapter knows its settings: Setting.problem",
            "channel": "a registered channel: `channels.get` raises NotFound",
            "last_inbound_at": "set by messages",
            "last_sent_at": "set by messages",
            "last_error": "set by errors",
            "last_error_at": "set by errors",
        },
        code="bad_account",
    ),
    Subject(
        ChannelRoute,
        good={"agent": "default", "chat_id": "1", "sender_id": "2", "account": "main"},
        store=store_route,
        path="channels/{account}/routes",
        sent=lambda values: {
            n: v for n, v in ({**values, "agent_id": "default"}).items() if n not in ("agent", "account")
        },
        unruled={"is_chosen": "set by a sender's command"},
    ),
    Subject(
        Schedule,
        good={"task_id": "report", "agent": "default", "prompt": "Report.", "cron": "0 9 * * 1-5"},
        store=store_schedule,
        path="cron",
        sent=lambda values: {("agent_id" if n == "agent" else n): v for n, v in values.items()},
        unruled={
            "destination": "set from the session",
            "next_at": "computed from the plan",
            "created_by": "set to the actor",
            "created_at": "set when it is created",
            "updated_at": "set when it is changed",
            "cron": "read by Rhythm (bad_cron), which every way uses",
            "time_zone": "read by Rhythm (bad_time_zone), which every way uses",
            "network": "names a network of its user: access_runnable_network",
        },
    ),
    Subject(
        ModelProvider,
        good={"name": "acme", "kind": "openai", "base_url": "https://api.acme.example/v1"},
        bad={"base_url": ["ftp://acme.example"]},
        unruled={"kind": "a registered kind: the choices of the form"},
    ),
    Subject(
        ModelPrice,
        good={"provider": "demo", "model": "m", "input_price": 1, "output_price": 2, "cached_input_price": None},
        store=store_price,
    ),
    Subject(
        UserCostCap,
        good={"per_day": 1, "per_month": 2},
        store=lambda values: cost_settings.set_user_caps(User.objects.get(username="op").pk, **values),
    ),
    Subject(
        StoredNetwork,
        good={"definition": NETWORK.format(name="daily")},
        store=store_network,
        path="networks",
        unruled={
            "name": "read from the definition",
            "description": "read from the definition",
            "version": "counted",
            "owner_id": "set to the user who creates it",
            "is_shared_with_everyone": "a flag",
        },
        code="too_long",
    ),
    Subject(
        PromptTemplate,
        good={"name": "greeting", "text": "Hello."},
        store=lambda values: prompt_templates.create(values["name"], values["text"]),
        path="templates",
        code="invalid_template",
    ),
)
WAYS: dict[str, Callable[[Subject, dict[str, Any], Any], Refusal | None]] = {
    "service": by_service,
    "REST": by_rest,
    "admin": by_form,
    "import": by_import,
}


@pytest.fixture
def world(db: None) -> None:
    """Make the objects that the others refer to, an operator with every right, and a superuser."""
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
