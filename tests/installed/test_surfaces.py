"""Surfaces on a whole installation, by the clients that people use: the answer, how soon it begins, files, a crash."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.browser.chat_page import tokens
from tests.fakes.model_server import ModelServer
from tests.installed.installation import Installation
from tests.installed.log import LogReader
from tests.installed.people import add_people
from tests.installed.surfaces import CLIENTS
from tests.installed.surfaces.base import SECONDS, SurfaceClient
from tests.installed.surfaces.webchat import SITE
from tests.support.live_server import wait_for

# A message of a surface waits for no other: its run begins with its nudge, or 2 s later if that was lost. A busy
# machine delays one message or another, not the faster of two, by more than a second.
SOON = 2.0
REPORT = b"Sold: 17 boats."
_WRITE = f"[[tool=write_artifact args={json.dumps({'path': 'out/report.txt', 'content': REPORT.decode()})}]]"
ANSWER = "[[tokens=20]]"
HELD = "[[tokens=20 hold=10]]"
QUESTION = "a long story [[tokens=60]]"
DIED = "agents_app.runs.reaper: the worker %s of run %s died; the run was released%s"
REFUSED = "django.request: Unauthorized: %s"
NAMES = [one.name for one in CLIENTS]


@pytest.fixture(scope="session")
def clients(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> dict[str, SurfaceClient]:
    """Return a client of each surface, with a user of its own each."""
    people = add_people(installation, [one.name for one in CLIENTS])
    config = tmp_path_factory.mktemp("site") / "config.json"
    config.write_text(json.dumps({"origins": [SITE]}))
    access = ("--access", "open", "--tools", "write_artifact")
    added = installation.manage("channel", "add", "web", "site", "--config", str(config), *access)
    assert added.returncode == 0, added.stderr
    return {one.name: one(installation, people[one.name]) for one in CLIENTS}


@pytest.fixture
def client(name: str, clients: dict[str, SurfaceClient]) -> SurfaceClient:
    return clients[name]


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_begins_soon_and_is_shown_while_it_is_written(
    client: SurfaceClient, model_server: ModelServer
) -> None:
    """The model goes on when the client shows the first part."""
    waited = []
    for number in (1, 2):
        shown: list[tuple[str, float]] = []

        def look(text: str, to: list[tuple[str, float]] = shown) -> None:
            to.append((text, time.monotonic()))
            if len(to) == 1:
                model_server.go_on()

        sent = time.monotonic()
        answer = client.ask(f"{number} {HELD if client.is_live else ANSWER}", look)
        assert answer.strip() == tokens(20)
        if client.is_live:
            assert shown[0][0].strip() != answer.strip()
            waited.append(shown[0][1] - sent)
    assert not client.is_live or min(waited) < SOON, waited


@pytest.mark.parametrize("name", [one.name for one in CLIENTS if one.sends_files])
def test_a_file_of_the_person_reaches_the_model(client: SurfaceClient, model_server: ModelServer) -> None:
    notes = f"the notes of {client.person.name}"
    assert client.ask('look at this [[text="I see."]]', file=notes.encode()) == "I see."
    assert any(notes in json.dumps(request.messages) for request in list(model_server.requests))


@pytest.mark.parametrize("name", [one.name for one in CLIENTS if one.shows_files])
def test_a_file_of_the_agent_can_be_downloaded(client: SurfaceClient, installation: Installation) -> None:
    answer = client.ask(f"a report, please {_WRITE}")
    if client.name == "webchat" and not installation.public_url:
        assert "report.txt (15\xa0bytes): cannot be sent here" in answer, "there is no address for a link"
        return
    [address] = client.files()
    assert client.download(address) == REPORT


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_key_is_refused(client: SurfaceClient, log: LogReader) -> None:
    log.expect(REFUSED, "a key is wrong")
    assert client.knock() == 401


def test_a_killed_worker_leaves_each_client_with_the_stored_text(
    installation: Installation, clients: dict[str, SurfaceClient], model_server: ModelServer, log: LogReader
) -> None:
    """All clients are in the middle of their answers."""
    log.expect(DIED, "a worker is killed")
    asking = [clients[one.name] for one in CLIENTS]
    shown = {one.name: threading.Event() for one in CLIENTS if one.is_live}
    for _ in asking:
        model_server.script("tokens=60 rate=100 hang=20")  # the first attempt; the second goes by the message
    before = model_server.count

    def ask(client: SurfaceClient) -> str:
        def look(text: str) -> None:
            if "tok19" in text:
                shown[client.name].set()

        return client.ask(QUESTION, look)

    with ThreadPoolExecutor(len(asking)) as pool:
        answers = [pool.submit(ask, client) for client in asking]
        wait_for(lambda: model_server.count == before + len(asking), SECONDS, "the requests of all")
        for name, event in shown.items():
            assert event.wait(SECONDS), f"{name} shows nothing"
        installation.kill("runs")
        ends = {client.name: answer.result().strip() for client, answer in zip(asking, answers, strict=True)}
    installation.wait_healthy("runs")
    assert ends == {client.name: client.stored(QUESTION).strip() for client in asking}
    assert set(ends.values()) == {tokens(60)}
