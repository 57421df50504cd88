"""A process refuses a schema that lacks migrations of its code, and says which command to run."""

from typing import Any

import pytest
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from komand import asgi, doctor, schema_check

pytestmark = pytest.mark.django_db

COMMAND = "python manage.py prepare"


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the newest migration of an app look as if it had not been applied."""
    monkeypatch.setattr(schema_check, "_fits", False)
    # The newest one that no squashed migration stands for: those are taken as applied again.
    MigrationRecorder.Migration.objects.filter(app="sessions_app").latest("name").delete()


def test_a_schema_with_all_migrations_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_check, "_fits", False)
    assert schema_check.find_problem() == ""


def test_newer_migrations_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_check, "_fits", False)
    MigrationRecorder.Migration.objects.create(app="audit_app", name="9999_of_a_later_release")
    assert schema_check.find_problem() == ""


@pytest.mark.usefixtures("behind")
def test_a_process_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("komand.schema_check.connection.close", lambda: None)
    with pytest.raises(SystemExit, match=COMMAND):
        schema_check.require()


@pytest.mark.usefixtures("behind", "valkey")
def test_it_is_not_ready_and_names_the_command(client: Client) -> None:
    ready = client.get("/health/ready")
    assert ready.status_code == 503 and ready.json()["data"]["status"] == "degraded"
    assert ready.json()["error"] == f"Not ready: schema: 1 migration is not applied; run: {COMMAND}"
    assert client.get("/health/live").status_code == 200
    database = next(finding for finding in doctor.examine() if finding.name == "database")
    assert (database.ok, database.mend) == (False, COMMAND)


async def test_an_asgi_server_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_check, "find_problem", lambda: f"run: {COMMAND}")
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await asgi.application({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)
    assert sent == [{"type": "lifespan.startup.failed", "message": f"run: {COMMAND}"}]
