from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.db.utils import OperationalError
from django.test import Client
from redis.exceptions import ConnectionError as ValkeyGone
from redis.exceptions import ResponseError

from komand import health

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


def fail_with(error: Exception) -> Any:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready"])
def test_a_working_installation_is_ok(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200 and answer.headers["Cache-Control"] == "no-store"
    body = answer.json()
    assert body["success"] is True and body["error"] is None and body["data"]["status"] == "ok"


@pytest.mark.parametrize(
    ("part", "error"), [("valkey", ValkeyGone("secret://url")), ("database", OperationalError("password=x"))]
)
def test_a_missing_part_means_not_ready_but_alive(
    client: Client, part: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(health._PARTS, part, fail_with(error))
    ready = client.get("/health/ready")
    assert ready.status_code == 503 and ready.json()["data"]["checks"][part] == "unreachable"
    assert ready.json() | {"data": None} == {
        "success": False,
        "data": None,
        "error": f"Not ready: {part}",
        "meta": None,
    }
    assert str(error) not in ready.content.decode()
    assert client.get("/health/live").status_code == 200
    assert client.get("/health").json()["data"]["status"] == "degraded"


def test_a_full_disk_is_blamed_and_not_valkey(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Valkey answers with an error while it cannot write its file."""
    refusal = ResponseError("MISCONF Errors writing to the AOF file: No space left on device")
    monkeypatch.setitem(health._PARTS, "valkey", fail_with(refusal))
    monkeypatch.setattr("komand.health.shutil.disk_usage", lambda folder: SimpleNamespace(free=4096))
    ready = client.get("/health/ready")
    assert ready.status_code == 503
    assert ready.json()["error"] == (
        "Not ready: storage: full; make room on the disk of the data folder, valkey: read-only; make room on its disk"
    )


@pytest.mark.parametrize(
    ("setting", "value", "normal", "state"),
    [
        ("maxmemory", 1, 0, "full; raise its maxmemory"),
        ("min-replicas-to-write", 1, 0, "read-only; check that REDIS_URL leads to the primary server"),
    ],
)
def test_a_valkey_that_answers_but_does_not_write_means_not_ready(
    client: Client, valkey: "redis.Redis", setting: str, value: int, normal: int, state: str
) -> None:
    valkey.config_set(setting, value)
    try:
        ready = client.get("/health/ready")
    finally:
        valkey.config_set(setting, normal)
    assert ready.status_code == 503 and ready.json()["data"]["checks"]["valkey"] == state
    assert client.get("/health/ready").status_code == 200


def test_only_reading_is_allowed(client: Client) -> None:
    assert client.post("/health").status_code == 405
