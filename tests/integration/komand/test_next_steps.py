"""The page of the next steps: who sees it, and what ticks each step."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.migrations.executor import MigrationExecutor
from django.test import Client
from django.utils import timezone

from agents_app.models import Agent, ModelProvider
from komand import __version__, doctor, next_steps, seed, upgrades
from komand.backup import history
from komand.management.commands import prepare
from sessions_app.models import ChannelAccount, SecondFactor
from tests.support.rest import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

ALL = [
    "Connect a model",
    "Invite a colleague",
    "Reach an agent from a channel",
    "Make a backup",
    "Give it a public address",
    "Turn on the second factor",
    "Try an upgrade",
]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    seed.seed()


def done() -> list[str]:
    return [step.title for step in next_steps.list_steps() if step.is_done]


def browser_of(user: User) -> Client:
    client = Client()
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    return client


def test_a_new_installation_has_every_step_open_with_a_way_to_do_it() -> None:
    steps = list(next_steps.list_steps())
    assert [step.title for step in steps] == ALL and done() == []
    assert all(step.detail and (step.link or step.command) for step in steps)


def test_each_step_is_ticked_by_what_it_asks_for(settings: Any) -> None:
    provider = ModelProvider.objects.create(name="acme", kind="openai", default_model="big")
    Agent.objects.filter(agent_id="default").update(provider=provider)
    assert done() == ALL[:1]
    make_user("ada")
    assert done() == ALL[:2]
    ChannelAccount.objects.create(channel="telegram", account_id="main", last_sent_at=timezone.now())
    assert done() == ALL[:3]
    history.record(rows=10, files=2)
    assert done() == ALL[:4]
    settings.KOMAND_PUBLIC_URL = "https://komand.example"
    assert done() == ALL[:5]
    SecondFactor.objects.create(user=User.objects.get(username="admin"), confirmed_at=timezone.now())
    assert done() == ALL[:6]
    upgrades.record(migrations=3)
    assert done() == ALL


def test_a_step_that_is_undone_loses_its_tick() -> None:
    provider = ModelProvider.objects.create(name="acme", kind="openai", is_enabled=False)
    Agent.objects.filter(agent_id="default").update(provider=provider)
    ChannelAccount.objects.create(channel="telegram", account_id="main", is_enabled=False, last_error="Wrong token.")
    channel = next(step for step in next_steps.list_steps() if step.title == ALL[2])
    assert done() == [] and "Wrong token." in channel.detail and "channel test" in channel.command


def test_a_public_address_without_encryption_is_none(settings: Any) -> None:
    for url in ("http://komand.example", "https://localhost", ""):
        settings.KOMAND_PUBLIC_URL = url
        assert "Give it a public address" not in done()


def test_superusers_alone_see_it(client: Client) -> None:
    page = browser_of(User.objects.get(username="admin")).get("/next")
    assert page.status_code == 200 and "0 of 7 done" in page.content.decode()
    assert all(title in page.content.decode() for title in ALL)
    assert browser_of(make_user("ada")).get("/next").status_code == 403
    assert client.get("/next").headers["Location"] == "/login?next=%2Fnext"


def test_the_chat_page_leads_superusers_there() -> None:
    link = 'href="/next"'
    assert link in browser_of(User.objects.get(username="admin")).get("/chat/new").content.decode()
    assert link not in browser_of(make_user("ada")).get("/chat/new").content.decode()


def test_doctor_knows_the_last_backup() -> None:
    assert "none made" in next(doctor.check_backup()).detail
    history.record(rows=10, files=2)
    assert "last made 20" in next(doctor.check_backup()).detail


def test_only_migrations_of_an_installation_that_existed_are_an_upgrade(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATA_DIR = tmp_path
    call_command("prepare", stdout=StringIO(), stderr=StringIO())
    assert upgrades.last_version() == ""
    monkeypatch.setattr(MigrationExecutor, "migration_plan", lambda *_: [("one of the next release", False)])
    monkeypatch.setattr(prepare, "call_command", lambda *_, **__: None)
    call_command("prepare", of_restore=True, stdout=StringIO(), stderr=StringIO())
    assert upgrades.last_version() == ""
    call_command("prepare", stdout=StringIO(), stderr=StringIO())
    assert upgrades.last_version() == __version__
