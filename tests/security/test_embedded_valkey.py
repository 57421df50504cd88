"""The embedded Valkey against clients without the password, and against Komand's own user."""

import asyncio
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis
from kombu import Connection
from redis.backoff import NoBackoff
from redis.retry import Retry

from komand.settings import env
from komand.supervisor import embedded
from tests.support.live_server import wait_for

pytestmark = pytest.mark.one_database

HARMFUL = (
    "MONITOR",
    "KEYS *",
    "FLUSHALL",
    "FLUSHDB",
    "CONFIG GET *",
    "CONFIG SET dir /tmp",
    "CLIENT LIST",
    "CLIENT KILL ID 1",
    "MODULE LIST",
    "ACL LIST",
    "SHUTDOWN NOSAVE",
    "SAVE",
    "REPLICAOF 127.0.0.1 1",
    "INFO",
    "SCRIPT FLUSH",
)


@pytest.fixture
def data_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="k") as folder:
        monkeypatch.setenv("KOMAND_DATA_DIR", folder)
        monkeypatch.delenv("REDIS_URL")
        yield Path(folder)


def command_line(data_dir: Path) -> list[str]:
    binary = embedded.find_binary()
    assert binary
    return embedded.command(binary, data_dir, embedded.choose_socket(data_dir))


@pytest.fixture
def server(data_dir: Path) -> "Iterator[subprocess.Popen[bytes]]":
    with subprocess.Popen(command_line(data_dir), stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: asyncio.run(embedded.answers(data_dir, Path(env.embedded_socket()))), 60, "Valkey")
        yield process
        process.terminate()


def test_a_client_without_the_password_can_do_nothing(server: "subprocess.Popen[bytes]") -> None:
    with redis.Redis(unix_socket_path=env.embedded_socket(), retry=Retry(NoBackoff(), 0)) as client:
        for command in ("PING", "GET x", *HARMFUL):
            with pytest.raises(redis.exceptions.AuthenticationError):
                client.execute_command(*command.split())
    for user, password in (("default", ""), ("default", "x"), (env.VALKEY_USER, "x")):
        place = env.embedded_socket()
        client = redis.Redis(unix_socket_path=place, username=user, password=password, retry=Retry(NoBackoff(), 0))
        with client, pytest.raises(redis.exceptions.AuthenticationError):
            client.ping()


def test_komand_s_user_has_the_commands_of_the_product_and_no_others(server: "subprocess.Popen[bytes]") -> None:
    with redis.Redis.from_url(env.redis_url()) as client:
        for command in HARMFUL:
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command.split())
        client.set("a", 1, ex=9)
        client.xadd("s", {"e": "1"})
        client.eval("return redis.call('incr', KEYS[1])", 1, "n")  # type: ignore[no-untyped-call]
        assert (client.get("a"), client.get("n")) == (b"1", b"1")


def test_celery_uses_the_password_and_shows_it_nowhere(data_dir: Path, server: "subprocess.Popen[bytes]") -> None:
    password = env.stored_secret(data_dir, env.VALKEY_SECRET)
    with Connection(env.broker_url()) as broker:
        queue = broker.SimpleQueue("q")
        queue.put("x")
        assert queue.get(timeout=5).payload == "x"
        queue.close()
        assert password not in broker.as_uri() and password not in repr(broker)


def test_the_password_is_in_no_command_line_no_environment_and_no_open_file(
    data_dir: Path, server: "subprocess.Popen[bytes]"
) -> None:
    password = env.stored_secret(data_dir, env.VALKEY_SECRET)
    process = psutil.Process(server.pid)
    assert password not in " ".join(process.cmdline()) and password not in process.environ().values()
    for file in (data_dir / "secrets" / env.VALKEY_SECRET, env.embedded_users(data_dir)):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert password not in env.embedded_users(data_dir).read_text()


def test_a_server_of_a_release_without_passwords_is_replaced_and_not_adopted(data_dir: Path) -> None:
    command = command_line(data_dir)
    index = command.index("--aclfile")
    with subprocess.Popen([*command[:index], *command[index + 2 :]], stdout=subprocess.DEVNULL) as process:
        place = Path(env.embedded_socket())
        wait_for(lambda: place.exists() and (data_dir / "valkey" / "pid").exists(), 60, "Valkey")
        reaper = asyncio.run(_find_while_reaped(data_dir, place, process))
        assert reaper is None
        assert process.wait(60) == 0


async def _find_while_reaped(data_dir: Path, place: Path, process: "subprocess.Popen[bytes]") -> int | None:
    reaping = asyncio.create_task(asyncio.to_thread(process.wait, 60))  # as init does for an orphaned one
    found = await embedded.find_running(data_dir, place)
    await reaping
    return found


def test_processes_of_a_new_release_work_with_a_supervisor_of_the_one_before(data_dir: Path) -> None:
    """A rolling restart keeps the supervisor and its Valkey, which has no password."""
    place = embedded.choose_socket(data_dir)
    assert env.redis_url() == f"unix://{place}?db=0"
    command_line(data_dir)
    assert env.redis_url().startswith(f"unix://{env.VALKEY_USER}:")
    embedded.forget_socket(data_dir, place)
    assert env.redis_url() == f"unix://{place}?db=0"


def test_another_server_is_used_as_its_address_says(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> None:
    command_line(data_dir)
    monkeypatch.setenv("REDIS_URL", "redis://:secret@cache:6379/0")
    assert env.redis_url() == env.broker_url() == "redis://:secret@cache:6379/0"
    assert os.environ["KOMAND_DATA_DIR"] == str(data_dir)
