import json
from io import StringIO
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.utils import DatabaseError
from django.test import RequestFactory

from agents_app.models import Agent, ModelProvider
from komand import seed
from komand.settings.env import BadSetting
from tools_app.secrets import vault

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_model_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "KOMAND_MODEL"):
        monkeypatch.delenv(name, raising=False)


def prepare() -> dict[str, Any]:
    out = StringIO()
    call_command("prepare", stdout=out)
    (line,) = out.getvalue().splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_each_part_that_is_done_is_reported_on_demand() -> None:
    out = StringIO()
    call_command("prepare", parts=True, stdout=out)
    parts = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [part.get("part") for part in parts] == ["database", "seed", None]
    assert all(part["seconds"] >= 0 for part in parts[:2]) and parts[-1]["login"]


def test_a_new_installation_gets_an_administrator_whose_password_is_shown_once() -> None:
    login = prepare()["login"]
    user = authenticate(RequestFactory().post("/login"), username="admin", password=login["password"])
    assert user is not None and user.is_superuser and user.email == "admin@localhost"
    assert prepare()["login"] is None


def test_a_new_installation_has_the_agent_of_a_team_and_an_older_one_gets_none() -> None:
    prepare()
    team = Agent.objects.get(agent_id="team")
    assert (team.tool_profile, team.provider.name, team.is_shared_with_everyone, team.version) == (
        *("teams", "demo", True),
        1,
    )
    team.delete()
    prepare()
    assert list(Agent.objects.values_list("agent_id", flat=True)) == ["default"]


def test_an_existing_administrator_is_enough() -> None:
    User.objects.create_superuser("boss")
    assert prepare()["login"] is None and not User.objects.filter(username="admin").exists()


def test_without_a_key_the_demo_answers() -> None:
    assert prepare()["provider"] == {"name": "demo", "kind": "demo", "model": "demo", "base_url": ""}


def test_a_key_at_the_first_start_is_sealed_and_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-mine")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1/")
    monkeypatch.setenv("KOMAND_MODEL", "llama")
    assert prepare()["provider"] == {
        "name": "openai",
        "kind": "openai",
        "model": "llama",
        "base_url": "http://127.0.0.1:11434/v1",
    }
    row = ModelProvider.objects.get(name="openai")
    assert "sk-of-mine" not in row.api_key_sealed and vault.unseal(row.api_key_sealed) == "sk-of-mine"


def test_an_address_alone_is_enough_for_a_server_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1")
    assert seed.seed().agent.provider.api_key_sealed == ""


def test_an_invalid_address_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:11434")
    with pytest.raises(BadSetting, match="OPENAI_BASE_URL"):
        seed.seed()
    assert not ModelProvider.objects.exists()


def test_a_key_of_a_later_start_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-late")
    assert prepare()["provider"]["kind"] == "demo"
    assert not ModelProvider.objects.filter(kind="openai").exists()


def test_changes_by_an_operator_stay() -> None:
    prepare()
    Agent.objects.filter(agent_id="default").update(name="Mine", system_prompt="Be brief.")
    ModelProvider.objects.filter(name="demo").update(is_enabled=False)
    prepare()
    agent = Agent.objects.get(agent_id="default")
    assert (agent.name, agent.system_prompt, agent.provider.is_enabled) == ("Mine", "Be brief.", False)


def test_contradictory_settings_stop_the_start(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    settings.KOMAND_JWT_KEY = "short"
    with pytest.raises(SystemExit, match="1"):
        prepare()
    assert "KOMAND_JWT_KEY is shorter than 32 characters" in capsys.readouterr().err


def test_a_damaged_database_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = mock.Mock(ensure_connection=mock.Mock(side_effect=DatabaseError("file is not a database")))
    monkeypatch.setattr("komand.management.commands.prepare.connection", damaged)
    with pytest.raises(SystemExit, match="the database cannot be used: file is not a database"):
        prepare()
