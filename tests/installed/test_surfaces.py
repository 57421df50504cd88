"""Surfaces on a whole installation, by the clients that people use: the answer, how soon it begins, files, a crash."""

import json
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
    log.expect("axes.handlers.database: AXES: New login failure by %s", "a password is wrong")
    assert client.knock() == 401


def test_a_worker_that_is_killed_twice_leaves_each_client_with_the_stored_text(
    installation: Installation, clients: dict[str, SurfaceClient], model_server: ModelServer, log: LogReader
) -> None:
    """All clients are in the middle of their answers, whose words are others after each kill.

    What clients only append to ends with the stored text. All others show nothing else.
    """
    log.expect(DIED, "a worker is killed")
    asking = [clients[one.name] for one in CLIENTS]
    shown = {one.name: "" for one in CLIENTS if one.is_live}

    def ask(client: SurfaceClient) -> str:
        return client.ask(QUESTION, lambda text: shown.update({client.name: text}))

    def wait_for_words(words: str, before: int) -> None:
        wait_for(lambda: model_server.count == before + len(asking), SECONDS, "the requests of all")
        wait_for(lambda: all(f"{words}18" in text for text in shown.values()), SECONDS, f"{words}, on all of {shown}")

    with ThreadPoolExecutor(len(asking)) as pool:
        _script(model_server, "early", len(asking))
        before = model_server.count
        answers = [pool.submit(ask, client) for client in asking]
        wait_for_words("early", before)
        _script(model_server, "other", len(asking))
        installation.kill("runs")
        wait_for_words("other", before + len(asking))
        installation.kill("runs")
        ends = {client.name: answer.result().strip() for client, answer in zip(asking, answers, strict=True)}
    installation.wait_healthy("runs")
    assert {client.stored(QUESTION).strip() for client in asking} == {tokens(60)}
    appended = {client.name for client in asking if client.only_appends}
    assert {name for name, end in ends.items() if end != tokens(60)} == appended
    for name in appended:
        assert ends[name].endswith(f"\n\n{tokens(60)}") and ends[name].count("early18") == 1, ends[name]


def _script(model_server: ModelServer, words: str, count: int) -> None:
    """Let the next answers begin with these words, and fall silent."""
    text = " ".join(f"{words}{number}" for number in range(60))
    model_server.script(*[f'text="{text}" rate=100 hang=20'] * count)
