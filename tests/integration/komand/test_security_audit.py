"""`doctor --security`: each problem is found, and not found once it is mended."""

import json
import re
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents_app.models import Agent, ModelPrice, ModelProvider
from komand import doctor, findings, security_audit, seed
from sessions_app.models import ChannelAccount, SecondFactor

FIXED_PYTHONS = security_audit._FIXED_PYTHONS
pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


@pytest.fixture(autouse=True)
def _seeded(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed.seed()
    settings.DATA_DIR = tmp_path
    tmp_path.chmod(0o700)
    monkeypatch.setattr(security_audit, "_FIXED_PYTHONS", {})  # whatever Python runs the tests


def found() -> dict[str, str]:
    """Return the details of the problems by id."""
    return {finding.id: finding.detail for finding in security_audit.examine()}


def add_account(channel: str = "telegram", access: str = "paired", **fields: Any) -> ChannelAccount:
    return ChannelAccount.objects.create(channel=channel, account_id="main", access=access, **fields)


def run_doctor(*arguments: str) -> tuple[str, int]:
    """Return the output and the exit status."""
    out = StringIO()
    try:
        call_command("doctor", "--security", *arguments, stdout=out, no_color=True)
    except SystemExit as end:
        return out.getvalue(), int(str(end.code))
    return out.getvalue(), 0


def test_a_new_installation_has_no_problem() -> None:
    assert found() == {}
    assert run_doctor() == ("No problem found.\n", 0)


@pytest.mark.parametrize(
    ("setting", "value", "problem"),
    [
        ("KOMAND_PUBLIC_URL", "http://komand.example", "komand.W001"),
        ("ALLOWED_HOSTS", ["*"], "komand.E004"),
        ("KOMAND_JWT_KEY", "short", "komand.E002"),
        ("KOMAND_CORS_ORIGINS", ["*"], "cors.any"),
        ("KOMAND_MAX_RUNNING_PER_USER", 0, "runs.unlimited"),
        ("KOMAND_PYTHON_UNISOLATED", True, "tools.unisolated"),
    ],
)
def test_a_setting_that_is_unsafe_is_found(settings: Any, setting: str, value: Any, problem: str) -> None:
    before = getattr(settings, setting)
    setattr(settings, setting, value)
    assert problem in found()
    setattr(settings, setting, before)
    assert found() == {}


def test_debug_mode_and_equal_secrets_are_found(settings: Any) -> None:
    settings.DEBUG, settings.ALLOWED_HOSTS = True, ["komand.example"]
    settings.KOMAND_JWT_KEY = settings.SECRET_KEY
    assert {"komand.E001", "komand.E003"} <= found().keys()


def test_an_account_that_is_open_is_low_and_one_that_exposes_an_agent_is_high() -> None:
    account = add_account(access="open", tools=["calculator"])
    assert found() == {
        "channels.open": "Everyone who finds telegram/main can write to its agent, which is intended of a bot for the "
        "public only."
    }
    assert run_doctor()[1] == 0
    Agent.objects.update(autonomy="full")
    assert found().keys() == {"channels.open", "channels.exposed"}
    text, status = run_doctor()
    assert (
        status == 1 and "channels.exposed    channel telegram/main: Everyone who finds it is served by default" in text
    )
    account.access = "paired"
    account.save()
    assert found() == {}


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({}, "channels.unverified"),
        ({"senders": "dmarc"}, "channels.unverified"),
        ({"senders": "asserted"}, "channels.forgeable"),
        ({"senders": "unverified", "auth_server": "mx.example"}, "channels.forgeable"),
        ({"senders": "asserted", "auth_server": "mx.example"}, ""),
        ({"auth_server": "mx.example"}, ""),
    ],
)
def test_a_mail_account_that_verifies_nobody_is_found(config: dict[str, str], problem: str) -> None:
    add_account("email", config=config)
    assert list(found()) == ([problem] if problem else [])


def test_an_agent_that_sends_without_approval_is_found() -> None:
    Agent.objects.filter(agent_id="default").update(autonomy="full", egress_servers=["wiki"])
    assert "default" in found()["agents.egress"] and "wiki" in found()["agents.egress"]
    Agent.objects.update(autonomy="supervised")
    assert found() == {}
    Agent.objects.update(autonomy="full", egress_servers=[])
    assert found() == {}


def test_agents_whose_cost_nothing_limits_are_found(settings: Any) -> None:
    ModelProvider.objects.update(input_price=0.1, output_price=0.2)
    assert found() == {}, "nobody pays for the demo model"
    ModelProvider.objects.update(kind="openai", input_price=1.0, output_price=1.0)
    assert found() == {}, "the prices of earlier releases, which stand for none"
    ModelProvider.objects.update(input_price=0.1, output_price=0.2)
    assert found().keys() == {"costs.uncapped"}
    settings.KOMAND_COST_PER_MONTH = 10
    assert found() == {}
    settings.KOMAND_COST_PER_MONTH = 0
    Agent.objects.update(budgets={"actionsPerHour": 5})
    assert found().keys() == {"costs.uncapped"}
    Agent.objects.update(budgets={"costPerDay": 5})
    assert found() == {}


def test_prices_of_single_models_count_as_prices() -> None:
    ModelProvider.objects.update(kind="openai")
    ModelPrice.objects.create(provider=ModelProvider.objects.get(), model="*", input_price=1, output_price=1)
    assert found().keys() == {"costs.uncapped"}


def test_owners_who_approve_are_found_if_there_are_several_users(settings: Any) -> None:
    settings.KOMAND_APPROVERS = "owners"
    assert found() == {}
    user = User.objects.create_user("alice")
    assert found().keys() == {"approvals.owners"}
    user.is_active = False
    user.save()
    assert found() == {}


def test_superusers_without_a_second_factor_are_found_at_a_public_address(settings: Any) -> None:
    settings.KOMAND_PUBLIC_URL = "https://komand.example"
    assert "admin" in found()["login.second_factor"]
    user = User.objects.get()
    row = SecondFactor.objects.create(user=user)
    assert found().keys() == {"login.second_factor"}
    row.confirmed_at = timezone.now()
    row.save()
    assert found() == {}
    settings.KOMAND_STAFF_SECOND_FACTOR = "off"
    assert found().keys() == {"login.second_factor"}
    user.set_unusable_password()  # logs in by OpenID Connect
    user.save()
    assert found() == {}


@pytest.mark.parametrize("password", ["admin", "root7", "komand"])
def test_a_password_that_is_tried_first_is_found(password: str) -> None:
    user = User.objects.get()
    user.username = "root7"
    user.set_password(password)
    user.save()
    assert found().keys() == {"login.guessable"}
    user.set_password("correct-horse-battery")
    user.save()
    assert found() == {}


def test_a_secret_file_that_others_can_read_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mounted"
    file.write_text("x")
    file.chmod(0o600)
    monkeypatch.setenv("KOMAND_OIDC_CLIENT_SECRET_FILE", str(file))
    assert found() == {}
    tmp_path.chmod(0o700)
    file.chmod(0o640)
    assert found().keys() == {"files.modes", "files.secrets"}


def test_fix_changes_modes_and_nothing_else(settings: Any, tmp_path: Path) -> None:
    settings.KOMAND_CORS_ORIGINS = ["*"]
    key = tmp_path / "secrets" / "vault.key"
    key.parent.mkdir(mode=0o700)
    key.write_text("x")
    key.chmod(0o644)
    assert found().keys() == {"cors.any", "files.modes"}
    text, status = run_doctor("--fix")
    assert text.startswith("files.modes: changed the modes of 1 entries") and status == 1
    assert key.stat().st_mode & 0o777 == 0o600
    assert re.search(r"medium +cors\.any .*\n    → .*\n    not changed by --fix", text) and "files.modes " not in text
    report = json.loads(run_doctor("--fix", "--json")[0])
    assert (report["ok"], report["fixed"], settings.KOMAND_CORS_ORIGINS) == (False, [], ["*"])
    assert {"id": "cors.any", "severity": "medium"}.items() <= report["findings"][0].items()
    with pytest.raises(CommandError, match="needs --security"):
        call_command("doctor", "--fix")


@pytest.mark.parametrize(
    ("version", "is_found"),
    [((3, 11, 13), True), ((3, 11, 14), False), ((3, 12, 11), True), ((3, 13, 5), True), ((3, 14, 0), False)],
)
def test_a_python_with_a_known_weakness_is_found(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int], is_found: bool
) -> None:
    monkeypatch.setattr(security_audit, "_FIXED_PYTHONS", FIXED_PYTHONS)
    monkeypatch.setattr(sys, "version_info", version)
    problems = [finding.id for finding in security_audit._python()]
    assert problems == (["python.html"] if is_found else [])


def test_a_database_that_is_away_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> Any:
        yield findings.Finding("database", False, "no answer", "start it", findings.UNEXAMINED)

    monkeypatch.setattr(doctor, "check_database", away)
    User.objects.all().delete()
    with CaptureQueriesContext(connection) as queries:
        assert found() == {"unexamined": "no answer"}
    assert len(queries) == 0


def test_each_examination_makes_one_query_at_most(settings: Any) -> None:
    settings.KOMAND_PUBLIC_URL, settings.KOMAND_APPROVERS = "https://komand.example", "owners"
    add_account("email", "open", tools=[])
    Agent.objects.filter(agent_id="default").update(autonomy="full", egress_servers=["wiki"])
    ModelProvider.objects.update(input_price=0.1, output_price=0.2)
    own = ("open_accounts", "mail_accounts", "agents", "costs", "approvers", "second_factors", "passwords")
    for name in own:
        with CaptureQueriesContext(connection) as queries:
            list(getattr(security_audit, f"_{name}")())
        assert len(queries) == 1, name


def test_the_worst_problem_comes_first(settings: Any) -> None:
    settings.KOMAND_CORS_ORIGINS = ["*"]
    add_account("email", "open", tools=[])
    settings.KOMAND_PYTHON_UNISOLATED = True
    severities = [finding.severity for finding in security_audit.examine()]
    assert severities == sorted(severities, key=findings.LEVELS.index) and len(set(severities)) == 3


def test_the_page_lists_the_ids_and_severities(settings: Any) -> None:
    page = (Path(settings.BASE_DIR) / "docs" / "security.md").read_text()
    rows = re.findall(r"^\| `([a-z_]+(?:\.\w+)?)` \| (\w+) \| .+ \| .+ \|$", page, re.MULTILINE)
    assert dict(rows) == findings.SEVERITIES and len(rows) == len(findings.SEVERITIES)
