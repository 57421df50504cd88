import errno
import stat
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from komand.settings import env
from tests.support.live_server import ROOT, clean_environment


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOMAND_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("REDIS_URL", raising=False)


def test_a_secret_is_made_once_and_kept_private(tmp_path: Path) -> None:
    first = env.secret_file("x.key", "KOMAND_X_KEY")
    path = tmp_path / "secrets" / "x.key"
    assert len(first) >= 48 and env.secret_file("x.key", "KOMAND_X_KEY") == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in path.parent.iterdir()] == ["x.key"]


def test_a_secret_of_another_process_wins_when_it_was_first(tmp_path: Path) -> None:
    env.secret_file("x.key", "KOMAND_X_KEY")
    env._make_secret(tmp_path / "secrets" / "x.key", "late")
    assert env.secret_file("x.key", "KOMAND_X_KEY") != "late"


@pytest.mark.parametrize(
    ("host", "allowed"), [("192.0.2.7", ["192.0.2.7"]), ("fd00::7", ["[fd00::7]"]), ("0.0.0.0", []), ("[::]", [])]
)
def test_the_address_that_up_listens_on_is_an_allowed_host(host: str, allowed: list[str], tmp_path: Path) -> None:
    program = "from komand.settings import base; print(*base.ALLOWED_HOSTS)"
    environment = clean_environment(KOMAND_HOST=host, KOMAND_DATA_DIR=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["127.0.0.1", "localhost", "[::1]", *allowed]


def test_an_empty_secret_stops_the_start(tmp_path: Path) -> None:
    env.secret_file("x.key", "KOMAND_X_KEY")
    (tmp_path / "secrets" / "x.key").write_text("")
    with pytest.raises(env.BadSetting, match="x.key is empty"):
        env.secret_file("x.key", "KOMAND_X_KEY")


def test_a_secret_that_cannot_be_written_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "komand.settings.env.os.fsync", mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    )
    with pytest.raises(env.BadSetting, match="No space left"):
        env.secret_file("x.key", "KOMAND_X_KEY")
    assert not list((tmp_path / "secrets").iterdir())


def test_a_file_of_another_encoding_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "value").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("KOMAND_X_KEY_FILE", str(tmp_path / "value"))
    with pytest.raises(env.BadSetting, match="KOMAND_X_KEY_FILE cannot be read"):
        env.text("KOMAND_X_KEY")


def test_the_variable_wins_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOMAND_X_KEY", "given")
    assert env.secret_file("x.key", "KOMAND_X_KEY") == "given"


def test_a_value_can_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("from-file\n")
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(tmp_path / "key"))
    assert env.text("OPENAI_API_KEY") == "from-file"


@pytest.mark.parametrize("raw", ["100", "100/", "/60", "a/60", "0/60", "100/0", "-1/60"])
def test_a_rate_that_cannot_be_read_stops_the_start(raw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOMAND_RATE_API", raw)
    with pytest.raises(SystemExit, match="KOMAND_RATE_API must look like 100/60"):
        env.rate("KOMAND_RATE_API", "100/60")


def test_a_rate_is_read_as_count_and_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KOMAND_RATE_API", raising=False)
    assert env.rate("KOMAND_RATE_API", "100/60") == (100, 60)


@pytest.mark.parametrize(
    ("name", "read"),
    [("KOMAND_PORT", lambda: env.integer("KOMAND_PORT", 1)), ("KOMAND_DEBUG", lambda: env.flag("KOMAND_DEBUG"))],
)
def test_a_bad_value_names_the_variable(name: str, read: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "maybe")
    with pytest.raises(SystemExit, match=name):
        read()  # type: ignore[operator]


def test_the_embedded_socket_has_each_library_s_own_url(tmp_path: Path) -> None:
    (tmp_path / "valkey").mkdir()
    (tmp_path / "valkey" / "socket").write_text("/tmp/k/valkey.sock")
    assert env.redis_url() == "unix:///tmp/k/valkey.sock?db=0"
    assert env.broker_url() == "redis+socket:///tmp/k/valkey.sock?virtual_host=0"


def test_a_given_server_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "rediss://:secret@cache:6380/2")
    assert env.redis_url() == env.broker_url() == "rediss://:secret@cache:6380/2"
    assert not env.is_embedded()


@pytest.mark.parametrize(
    ("name", "read", "wrong"),
    [
        ("DATABASE_URL", env.database_url, "komand"),
        ("DATABASE_URL", env.database_url, "mysql://u:secret@db/komand"),
        ("DATABASE_URL", env.database_url, "sqlite:///komand.sqlite3"),
        ("REDIS_URL", env.redis_url, "localhost:6379"),
        ("REDIS_URL", env.broker_url, "http://:secret@cache:6380"),
    ],
)
def test_an_address_of_the_wrong_kind_stops_the_start_without_its_password(name, read, wrong, monkeypatch):
    monkeypatch.setenv(name, wrong)
    with pytest.raises(env.BadSetting, match=f"{name} must look like .*://") as raised:
        read()
    assert "secret" not in str(raised.value)


def test_an_empty_value_is_none(monkeypatch):
    monkeypatch.setenv("KOMAND_HOST", "")
    assert env.text("KOMAND_HOST", "127.0.0.1") == "127.0.0.1"


@pytest.mark.parametrize("value", ["89", "1", "-1"])
def test_a_time_to_keep_below_the_least_stops_the_start(monkeypatch, value):
    monkeypatch.setenv("KOMAND_TIMELINE_DAYS", value)
    with pytest.raises(env.BadSetting, match="KOMAND_TIMELINE_DAYS must be"):
        env.days("KOMAND_TIMELINE_DAYS", 0, least=90)


@pytest.mark.parametrize(("value", "days"), [("0", 0), ("90", 90), ("", 180)])
def test_for_ever_and_long_enough_are_times_to_keep(monkeypatch, value, days):
    monkeypatch.setenv("KOMAND_STEP_DAYS", value)
    assert env.days("KOMAND_STEP_DAYS", 180, least=90) == days
