"""Fixtures of the scenarios: an installation of each kind, its log, the platforms of its channels."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.model_server import ModelServer
from tests.installed.installation import INSTALLATIONS, Installation
from tests.installed.log import LogReader
from tests.installed.platforms import PLATFORMS
from tests.installed.platforms.base import Platform

_TOGETHER = 3  # commands that start at once


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each scenario of a platform against all of them."""
    if "platform" in metafunc.fixturenames:
        metafunc.parametrize("platform", [kind.channel for kind in PLATFORMS], indirect=True)


@pytest.fixture(scope="session", params=INSTALLATIONS)
def kind(request: pytest.FixtureRequest) -> str:
    """Return the name of the installation."""
    return str(request.param)


@pytest.fixture(scope="session")
def outside(kind: str) -> Iterator[dict[str, Platform[Any]]]:
    """Yield the platforms, started, by their channels."""
    with ExitStack() as started:
        platforms = {one.channel: one() for one in PLATFORMS}
        for platform in platforms.values():
            started.enter_context(platform.server)
        yield platforms


@pytest.fixture(scope="session")
def installation(
    kind: str, outside: dict[str, Platform[Any]], model_server: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """Yield an installation with nothing set but the model, and the addresses here that stand for public ones.

    At its end its data must be consistent, and every receipt verifiable.
    """
    settings = {"OPENAI_BASE_URL": model_server.base_url, "OPENAI_API_KEY": "key-of-nobody", "KOMAND_MODEL": "fake"}
    addresses = [address for platform in outside.values() for address in platform.private_addresses]
    if addresses:
        settings["KOMAND_CALLBACK_ALLOW_PRIVATE"] = ",".join(addresses)
    with INSTALLATIONS[kind](tmp_path_factory.mktemp(kind), settings) as started:
        yield started
        checks = [started.manage(command) for command in ("check_invariants", "verify_receipts")]
        assert not any(check.returncode for check in checks), [(check.stdout, check.stderr) for check in checks]


@pytest.fixture(scope="session")
def log_reader(installation: Installation) -> LogReader:
    return LogReader(installation)


@pytest.fixture(autouse=True)
def log(log_reader: LogReader) -> Iterator[LogReader]:
    """Fail a scenario in which the installation logs a problem that the scenario does not expect."""
    log_reader.begin()
    yield log_reader
    problems = log_reader.problems()
    assert not problems, "\n".join(problems)


@pytest.fixture(scope="session")
def joined(
    installation: Installation, outside: dict[str, Platform[Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Platform[Any]]]]:
    """Yield the platforms, each as soon as it has an account of the installation that answers."""
    folder: Path = tmp_path_factory.mktemp("accounts")
    with ThreadPoolExecutor(_TOGETHER) as pool:
        yield {name: pool.submit(platform.join, installation, folder) for name, platform in outside.items()}


@pytest.fixture
def platform(request: pytest.FixtureRequest, joined: dict[str, Future[Platform[Any]]]) -> Platform[Any]:
    """Return one of the platforms."""
    return joined[request.param].result()


@pytest.fixture
def platforms(joined: dict[str, Future[Platform[Any]]]) -> list[Platform[Any]]:
    """Return all platforms."""
    return [one.result() for one in joined.values()]
