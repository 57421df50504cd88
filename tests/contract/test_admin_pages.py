"""The contract of the admin: every page answers every role, offers nothing that it refuses, and saves what it shows."""

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db import models
from django.test import Client
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from agents_app import events
from agents_app.models import Agent, DailyUsage, ModelProvider
from audit_app import services as audit
from audit_app.event_types import NewEvent
from sessions_app.identity.roles import ROLES, create_roles, open_admin
from sessions_app.models import ChannelAccount, InboundMessage, Pairing
from tests.security.route_world import World
from tests.support.html_forms import fields_of
from tests.support.rest import make_user
from tests.support.rights_table import django_routes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "world"), pytest.mark.one_database]

_LINK = re.compile(r'(?:href|hx-get)="(/[^"?#]*)')
SUPERUSER, NO_ROLE = "superuser", "none"
MODELS = tuple(admin.site._registry)
# Columns that a save counts up or seals anew.
_OF_A_SAVE = {"updated_at", "secrets_sealed", "settings_version", "tools_version"}
# A telegram account without its token, and one of a channel that is not installed.
_UNFINISHED = {"telegram/linked", "walked/main"}
# What a person enters in each form, besides what it shows already.
MINIMAL: dict[str, dict[str, Any]] = {
    "Credential": {"name": "crm", "value": "a-long-value"},
    "McpServer": {"name": "files", "command": "files-server"},
    "Agent": {"name": "Helper", "agent_id": "helper", "provider": ModelProvider},
    "StoredNetwork": {"definition": "name: daily\ntasks:\n- name: first\n  agent: default\n"},
    "PromptTemplate": {"name": "hello", "text": "Hello."},
    "ModelProvider": {"name": "acme"},
    "ApiKey": {"name": "ci", "user": User, "scopes": ["read"]},
    "ChannelRoute": {"account": ChannelAccount, "chat_id": "77", "agent": Agent},
    "ChannelAccount": {"channel": "webhook", "webhook__callback_url": "https://example.org/hook"},
    "Schedule": {"task_id": "report", "agent": Agent, "prompt": "Report.", "cron": "0 9 * * *"},
    "User": {"username": "bea"},
    "Group": {"name": "Readers"},
}


# A list that is never empty, and pages that are no lists.
_WITHOUT_EMPTY_LIST = ("User", "Control", "DailyUsage")


def test_each_empty_list_describes_what_it_is_for() -> None:
    pages = {model.__name__: page for model, page in admin.site._registry.items()}
    unclear = [name for name, page in pages.items() if not getattr(page, "empty_text", "")]
    assert sorted(unclear) == sorted(_WITHOUT_EMPTY_LIST)


@pytest.fixture
def world(db: None) -> None:
    """Make an object for each page that shows one."""
    create_roles()
    owner, session = (world := World()).alice, world.session
    now, account = timezone.now(), ChannelAccount.objects.get(channel="walked")
    Pairing.objects.create(account=account, sender_id="501", user=owner)
    times = {"sent_at": now, "received_at": now}
    InboundMessage.objects.create(account=account, message_id="1", sender_id="501", chat_id="1", **times)
    used = {"agent_id": "default", "actor": f"user:{owner.pk}", "provider": "demo", "model": "m", "cost_nanos": 10}
    DailyUsage.objects.create(day=now.date(), conversation_id=session.pk, calls=1, **used)
    queued = {"ordinal": 0, "agent_id": "default"}
    audit.emit([NewEvent(events.RUN_QUEUED, session.pk, queued, session_key=session.key)])


@pytest.fixture
def errors() -> Iterator[list[str]]:
    """Collect what is logged as an error or with a traceback."""
    found: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.ERROR or record.exc_info:
                found.append(record.getMessage())

    collector = Collector()
    logging.getLogger().addHandler(collector)
    yield found
    logging.getLogger().removeHandler(collector)


def log_in(role: str) -> Client:
    groups = Group.objects.filter(name=role)
    is_staff = role in (SUPERUSER, NO_ROLE) or open_admin(groups)
    user = make_user("walker", is_staff=is_staff, is_superuser=role == SUPERUSER)
    user.groups.set(groups)
    client = Client(raise_request_exception=False)
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    return client


def page_of(model: Any, name: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}", args=args)


def form_of(model: Any) -> str:
    return f"form#{model._meta.model_name}_form"


def addresses() -> Iterator[str]:
    """Yield the dashboard, and of each table its list, its form for a new row, and the pages of a row of each kind."""
    yield reverse("admin:index")
    for model in MODELS:
        rows = [row.pk for row in model._default_manager.all()[:4]]
        pages = [("changelist", ()), ("add", ()), *((name, (pk,)) for pk in rows for name in ("change", "delete"))]
        for name, args in pages:
            try:
                yield page_of(model, name, *args)
            except NoReverseMatch:  # a table with a page of its own, such as the costs
                continue


def links_of(page: str) -> set[str]:
    """Return the paths that a page offers, but for files."""
    return {link for link in _LINK.findall(page) if not link.startswith("/static/")}


def _walks(*values: str) -> list[Any]:
    """Return the values as parameters of `make test-all` alone: each is a walk over all pages, which takes seconds."""
    return [pytest.param(value, marks=pytest.mark.whole) for value in values]


def refused(error_list: Any) -> str:
    return " ".join(text for texts in error_list.values() for text in texts)


@pytest.mark.parametrize("role", [*_walks(SUPERUSER, *ROLES), NO_ROLE])
def test_every_page_answers_every_role_and_offers_nothing_that_is_refused(role: str, errors: list[str]) -> None:
    client, offered, seen = log_in(role), dict[str, str](), dict[str, int]()
    for address in addresses():
        answer = client.get(address)
        seen[address] = answer.status_code
        if answer.status_code == 200:
            offered = dict.fromkeys(links_of(answer.content.decode()), address) | offered
    wrong = [f"{status} {address}" for address, status in seen.items() if status not in (200, 302, 403)]
    for link, source in offered.items():
        status = seen.get(link) or client.get(link).status_code
        if status >= 400:
            wrong.append(f"{status} {link}, offered by {source}")
    assert (wrong, errors) == ([], [])


@pytest.mark.parametrize("value", ["nonsense", *_walks("0", "01a22050-fd13-7693-9af1-e2e91f92ade8", "9" * 30, "%00")])
def test_no_button_fails_for_an_id_without_an_object(value: str, errors: list[str]) -> None:
    client, wrong = log_in(SUPERUSER), []
    for route in django_routes():
        if route.path.startswith("/admin/") and route.parameters and route.method in ("GET", "POST"):
            url = route.url(dict.fromkeys(route.parameters, value))
            answer = client.post(url, {"_form_submitted": "True", "reason": "x"}) if route.method == "POST" else None
            if (answer or client.get(url)).status_code >= 500:
                wrong.append(f"{route.method} {url}")
    assert (wrong, errors) == ([], [])


@pytest.mark.parametrize("model", [model for model in MODELS if model.__name__ in MINIMAL])
def test_a_form_creates_an_object_or_says_what_is_missing(model: Any, errors: list[str]) -> None:
    client, address = log_in(SUPERUSER), page_of(model, "add")
    shown = fields_of(client.get(address).content.decode(), form_of(model))
    before = model._default_manager.count()
    answer = client.post(address, shown)
    told = refused(answer.context["adminform"].form.errors)
    assert answer.status_code == 200 and told and "onstraint" not in told
    given = {name: _key(value) for name, value in MINIMAL[model.__name__].items()}
    answer = client.post(address, {**shown, **given})
    told = "" if answer.status_code == 302 or "adminform" not in (answer.context or {}) else answer.context["errors"]
    assert (model._default_manager.count(), str(told)) == (before + 1, "")
    assert errors == []


def test_the_other_tables_have_no_form_for_a_new_row() -> None:
    client = log_in(SUPERUSER)
    others = [model for model in MODELS if model.__name__ not in MINIMAL]
    assert {client.get(page_of(model, "add")).status_code for model in others} == {403}


def _key(value: Any) -> Any:
    is_model = isinstance(value, type) and issubclass(value, models.Model)
    return value._default_manager.order_by("pk").first().pk if is_model else value


@pytest.mark.whole
def test_an_object_that_is_saved_unchanged_stays_as_it_is(errors: list[str]) -> None:
    client, saved, wrong = log_in(SUPERUSER), set(), []
    Agent.objects.update(version=1)
    for model in MODELS:
        for row in model._default_manager.all():
            address = page_of(model, "change", row.pk)
            page = client.get(address)
            if not page.context["has_change_permission"] or str(row) in _UNFINISHED:
                continue
            before = _columns(row)
            answer = client.post(address, fields_of(page.content.decode(), form_of(model)))
            after = _columns(model._default_manager.get(pk=row.pk))
            saved.add(model.__name__)
            if answer.status_code != 302 or before != after:
                changes = {name: (value, after[name]) for name, value in before.items() if value != after[name]}
                wrong.append(f"{model.__name__} {row}: {answer.status_code} {changes}")
    assert (wrong, errors) == ([], [])
    assert saved >= {*MINIMAL} - {"ApiKey", "Schedule"}  # they are not edited


def _columns(row: models.Model) -> dict[str, Any]:
    found = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    many = {field.name: {*getattr(row, field.name).all()} for field in row._meta.many_to_many}
    return {name: value for name, value in (found | many).items() if name not in _OF_A_SAVE}
