import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import call_command
from django.utils import timezone

from agents_app.models import Agent, ModelProvider
from audit_app.chain import sealer
from audit_app.chain.verification import Verifier
from audit_app.models import AuditEntry
from audit_app.services import record
from komand import __version__, doctor, health, seed
from komand.findings import Finding
from sessions_app.channels import accounts
from sessions_app.models import Delivery
from tests.fakes.model_server import ModelServer
from tests.fakes.telegram import TOKEN
from tests.fakes.webhook_receiver import SECRET
from tools_app.mcp_client import servers
from tools_app.sandbox import python_process
from tools_app.sandbox.python_process import Isolation
from tools_app.secrets import vault

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


@pytest.fixture(autouse=True)
def _seeded(valkey: Any) -> None:
    seed.seed()


def findings() -> dict[str, Finding]:
    return {finding.name: finding for finding in doctor.examine()}


def test_every_problem_has_a_remedy() -> None:
    found = findings()
    assert not found["process runs"].ok  # nothing runs beside this test
    assert all(finding.mend for finding in found.values() if not finding.ok)


def test_calls_that_no_worker_takes_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings()["tool calls"].ok
    monkeypatch.setattr("tools_app.selectors.count_untaken", lambda: 7)
    assert findings()["tool calls"].detail == "calls that no worker has taken for 30 s: 7"


def test_runs_that_wait_for_a_place_of_their_user_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings()["queued runs"].detail == "no user has too many"
    monkeypatch.setattr("agents_app.selectors.count_waits_for_place", lambda: {"user:1": 150})
    assert findings()["queued runs"].detail.endswith(
        "more than 30 runs (KOMAND_MAX_RUNNING_PER_USER), and how many wait: user:1: 150"
    )


def test_the_version_is_named_for_reports() -> None:
    assert __version__ in findings()["komand"].detail


def test_a_missing_valkey_is_reported_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise OSError("no such file")

    monkeypatch.setattr(health, "ping_valkey", gone)
    found = findings()["valkey"]
    assert not found.ok and "REDIS_URL" in found.mend


def test_a_valkey_that_refuses_commands_is_reported_with_the_reason(valkey: "redis.Redis") -> None:
    valkey.config_set("maxmemory", 1)
    try:
        found = findings()
    finally:
        valkey.config_set("maxmemory", 0)
    assert found["valkey"].mend == "full; raise its maxmemory"
    assert "broker" not in found  # a connection alone does not show that it takes tasks


def test_a_full_disk_is_reported_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "disk" not in findings()
    monkeypatch.setattr(health, "_LEAST_FREE_BYTES", 1 << 60)
    found = findings()["disk"]
    assert (found.detail, found.mend) == ("No space left on device", "make room on the disk of the data folder")


def test_a_part_that_cannot_be_examined_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Iterator[Finding]:
        raise ValueError("boom")

    monkeypatch.setattr(doctor, "check_database", broken)
    found = findings()
    assert not found["broken"].ok and found["static files"].ok


def test_a_database_that_is_away_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further check of it would wait for the time limit again."""

    def away() -> Iterator[Finding]:
        yield Finding("database", False, "no answer", "start it")

    monkeypatch.setattr(doctor, "check_database", away)
    found = findings()
    assert "provider demo" not in found and "providers" not in found and found["static files"].ok


def test_a_secret_that_others_can_read_is_found(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "vault.key").write_text("x")
    (tmp_path / "secrets" / "vault.key").chmod(0o644)
    tmp_path.chmod(0o700)
    (tmp_path / "secrets").chmod(0o700)
    found = findings()["data modes"]
    assert not found.ok and f"{tmp_path}/secrets/vault.key" in found.detail and found.mend == f"chmod -R go= {tmp_path}"


def provider(base_url: str, key: str = "") -> None:
    ModelProvider.objects.create(
        name="mine", kind="openai", base_url=base_url, api_key_sealed=vault.seal(key) if key else "", default_model="m"
    )


def test_a_provider_that_answers_is_well() -> None:
    with ModelServer(api_key="right") as server:
        provider(server.base_url, "right")
        assert findings()["provider mine"].ok


def test_a_provider_that_refuses_the_key_is_reported() -> None:
    with ModelServer(api_key="right") as server:
        provider(server.base_url, "wrong")
        found = findings()["provider mine"]
    assert not found.ok and "refuses the key" in found.detail and "admin" in found.mend and "wrong" not in str(found)


def test_a_provider_that_cannot_be_reached_is_reported() -> None:
    provider("http://127.0.0.1:9/v1")
    assert "does not answer" in findings()["provider mine"].detail


def test_the_command_is_readable_by_programs_and_fails_when_something_is_wrong() -> None:
    out = StringIO()
    with pytest.raises(SystemExit, match="1"):
        call_command("doctor", "--json", stdout=out)
    report = json.loads(out.getvalue())
    assert report["ok"] is False and {"name", "ok", "detail", "mend", "id", "severity"} == set(report["findings"][0])


def test_the_command_shows_a_remedy_below_each_problem() -> None:
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", stdout=out, no_color=True)
    assert "✗ process runs" in out.getvalue() and "    → start it: python manage.py up" in out.getvalue()


def test_retired_agents_are_not_checked() -> None:
    Agent.objects.all().delete()
    assert findings()["provider demo"].detail == "built in"


@pytest.mark.parametrize(
    ("allowed", "isolation", "ok", "detail"),
    [
        (None, Isolation({"files": []}, {"landlock": 7}), True, "off"),
        (False, Isolation({"files": []}, {"landlock": 7}), True, "the kernel denies files (landlock 7)"),
        (False, Isolation({"files": ["read a file"]}, {"landlock": 0}), False, "refuses to run code; not held: files"),
        (True, Isolation({"files": ["read a file"]}, {"landlock": 0}), True, "as KOMAND_PYTHON_TOOL is set"),
    ],
)
def test_the_isolation_of_the_python_tool_is_shown(
    settings: Any, monkeypatch: pytest.MonkeyPatch, allowed: bool | None, isolation: Isolation, ok: bool, detail: str
) -> None:
    settings.KOMAND_PYTHON_TOOL, settings.KOMAND_PYTHON_UNISOLATED = allowed is not None, bool(allowed)
    monkeypatch.setattr(python_process, "examine", lambda: isolation)
    found = findings()["python tool"]
    assert (found.ok, bool(found.mend)) == (ok, not ok) and detail in found.detail


def test_a_broken_audit_log_is_reported_with_its_first_break(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    assert "not verified yet" in findings()["audit log"].detail
    for _ in range(3):
        record("Tested", actor="user:1")
    sealer.seal_all()
    Verifier().run().record()
    assert "unbroken up to entry 3" in findings()["audit log"].detail
    AuditEntry.objects.filter(number=2).delete()
    Verifier(newest=2).run().record()
    found = findings()["audit log"]
    assert not found.ok and "Entry 2 is missing." in found.detail and "verify_receipts" in found.mend


def test_a_log_that_is_not_sealed_is_reported() -> None:
    record("Tested", actor="user:1")
    AuditEntry.objects.update(at=datetime.now(UTC) - timedelta(hours=1))
    assert any("not sealed" in finding.detail for finding in doctor.examine() if finding.name == "audit log")


def test_accounts_that_do_not_work_are_reported() -> None:
    config, secrets = {"callback_url": "https://example.org/answers"}, {"secret": SECRET}
    account, _ = accounts.add_account("webhook", "crm", config=config, secrets=secrets)
    assert "channel webhook/crm" not in findings()
    accounts.note_error(account, "The name could not be found.")
    assert "nothing yet, with the error: The name" in findings()["channel webhook/crm"].detail
    accounts.note_sent(account)
    assert "channel webhook/crm" not in findings()
    accounts.set_enabled(account, False, why="It refuses the token.")
    found = findings()["channel webhook/crm"]
    assert not found.ok and "off, with the error: It refuses the token." in found.detail and "enable it" in found.mend


def test_an_mcp_server_that_needs_authorization_is_reported() -> None:
    made = servers.add_server(name="files", transport="streamable_http", url="https://files.example.com/mcp")
    assert "mcp server files" not in findings()
    servers.store_fault(made.pk, "it needs authorization", "needs_authorization")
    finding = findings()["mcp server files"]
    assert (finding.ok, finding.detail) == (False, "it needs authorization") and "press Authorize" in finding.mend


def test_deliveries_that_cannot_be_sent_are_reported() -> None:
    config, secrets = {"callback_url": "https://example.org/answers"}, {"secret": SECRET}
    account, _ = accounts.add_account("webhook", "crm", config=config, secrets=secrets)
    now = timezone.now()
    times = {"ready_at": now, "expires_at": now + timedelta(hours=1), "created_at": now}
    for number, error in enumerate(("", "first", "No connection to example.org.")):
        Delivery.objects.create(dedupe_key=str(number), account=account, ordering_key="a", error=error, **times)
    found = findings()["sending webhook/crm"]
    assert not found.ok and found.detail.endswith("attempt: 2, the last one: No connection to example.org.")
    assert "channel test webhook crm" in found.mend


def test_an_account_whose_platform_cannot_reach_us_is_reported(settings: Any) -> None:
    secrets = {"bot_token": TOKEN}
    accounts.add_account("telegram", "main", config={"receive": "webhook"}, secrets=secrets)
    accounts.add_account("telegram", "polled", config={"receive": "polling"}, secrets=secrets)
    found = findings()
    assert "webhook telegram/polled" not in found and not found["webhook telegram/main"].ok
    assert "KOMAND_PUBLIC_URL" in found["webhook telegram/main"].mend
    settings.KOMAND_PUBLIC_URL = "https://gateway.example"
    assert "webhook telegram/main" not in findings()
