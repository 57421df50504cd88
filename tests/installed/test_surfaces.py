"""Surfaces on a whole installation, by the clients that people use: the answer, how soon it begins, files, a crash."""

import json
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from tests.browser.chat_page import tokens
from tests.fakes.model_server import ModelServer
from tests.installed.installation import Installation
from tests.installed.log import LogReader
from tests.installed.people import add_people
from tests.installed.surfaces import CLIENTS
from tests.installed.surfaces.base import SECONDS, OnText, SurfaceClient
from tests.installed.surfaces.other_agents import A2A
from tests.installed.surfaces.webchat import SITE
from tests.support.live_server import wait_for

# A message of a surface waits for no other: its run begins with its nudge, or 2 s later if that was lost. A busy
# machine delays one message or another, not the faster of two, by more than a second.
SOON = 2.0
# Of the two newest runs, in seconds since 1970.
_CREATED = """
from agents_app.models import Run
for run in Run.objects.order_by("-created_at")[:2]:
    print(run.created_at.timestamp())
"""
REPORT = b"Sold: 17 boats."
_WRITE = f"[[tool=write_artifact args={json.dumps({'path': 'out/report.txt', 'content': REPORT.decode()})}]]"
ANSWER = "[[tokens=20]]"
HELD = "[[tokens=20 hold=10]]"
QUESTION = "a long story [[tokens=60]]"
LATE = "late "  # begins the name of a client that connects after the first kill
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
    client: SurfaceClient, installation: Installation, model_server: ModelServer
) -> None:
    """The model goes on when the client shows the first part. Logins, which come before the message, do not count."""
    shown_at = []
    for number in (1, 2):
        shown: list[tuple[str, float]] = []

        def look(text: str, to: list[tuple[str, float]] = shown) -> None:
            to.append((text, time.time()))
            if len(to) == 1:
                model_server.go_on()

        answer = client.ask(f"{number} {HELD if client.is_live else ANSWER}", look)
        assert answer.strip() == tokens(20)
        if client.is_live:
            assert shown[0][0].strip() != answer.strip()
            shown_at.append(shown[0][1])
    if client.is_live:
        created = sorted(map(float, installation.manage("shell", "-v", "0", "-c", _CREATED).stdout.split()))
        waited = [shown - sent for shown, sent in zip(shown_at, created, strict=True)]
        assert 0 < min(waited) < SOON, waited


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
    with ThreadPoolExecutor(len(asking)) as pool:
        drill = Drill(installation, model_server, pool, runs=len(asking))
        for client in asking:
            drill.show(client, partial(client.ask, QUESTION))
        drill.kill_twice()
    installation.wait_healthy("runs")
    drill.check()
    assert {client.stored(QUESTION).strip() for client in asking} == {tokens(60)}


def test_one_run_whose_worker_is_killed_twice_is_followed_on_all_surfaces(
    installation: Installation, clients: dict[str, SurfaceClient], model_server: ModelServer, log: LogReader
) -> None:
    """An agent has begun the run over A2A. Its user follows it by all clients that can show a run of another client.

    Those that show their own runs alone are in the middle of answers of their own. All followers connect once more
    after the first kill, and are shown nothing of the words before.
    """
    log.expect(DIED, "a worker is killed")
    beginner = clients["a2a"]
    assert isinstance(beginner, A2A)
    followers = [one(installation, beginner.person) for one in CLIENTS if one.follows]
    asking = [clients[one.name] for one in CLIENTS if not one.follows]
    question = f"{QUESTION} for all"
    with ThreadPoolExecutor(2 * len(CLIENTS)) as pool:
        drill = Drill(installation, model_server, pool, runs=len(asking))
        for client in asking:
            drill.show(client, partial(client.ask, question))
        wait_for(lambda: question in beginner.tasks, SECONDS, "the task")
        task = beginner.tasks[question]

        def follow(name: str) -> None:
            for client in followers:
                drill.show(client, partial(client.follow, task["contextId"], task["id"]), name)

        follow("")
        drill.kill_twice(meanwhile=lambda: follow(LATE))
    installation.wait_healthy("runs")
    drill.check()
    assert {client.stored(question).strip() for client in asking} == {tokens(60)}
    assert not [name for name, texts in drill.shown.items() if name.startswith(LATE) and "early" in "".join(texts)]


class Drill:
    """Clients in the middle of answers. The worker is killed twice, and the words are others each time.

    runs: their number.
    shown: all texts that each client has shown, in order.
    """

    def __init__(self, installation: Installation, model: ModelServer, pool: ThreadPoolExecutor, *, runs: int) -> None:
        self._installation, self._model, self._pool, self._runs = installation, model, pool, runs
        self._requests, self._appending = model.count, set[str]()
        self._answers: dict[str, Future[str]] = {}
        self.shown: dict[str, list[str]] = {}
        self._script("early")

    def show(self, client: SurfaceClient, ask: Callable[[OnText], str], name: str = "") -> None:
        """Let a client show an answer. name: begins its name in the drill."""
        name += client.name
        if client.is_live:
            self.shown[name] = []
        if client.only_appends:
            self._appending.add(name)
        self._answers[name] = self._pool.submit(ask, lambda text: self.shown[name].append(text))

    def kill_twice(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Kill the worker when all show its words. meanwhile: called once other words are shown."""
        self._wait_for("early")
        self._script("other")
        self._installation.kill("runs")
        self._wait_for("other")
        meanwhile()
        self._wait_for("other", is_counted=False)
        self._installation.kill("runs")

    def check(self) -> None:
        """Check that all end with the stored text, and show nothing else if they can replace what they have shown."""
        for name, answer in self._answers.items():
            end = answer.result().strip()
            assert end.endswith(f"\n\n{tokens(60)}") if name in self._appending else end == tokens(60), (name, end)
            once = int(name in self._appending and not name.startswith(LATE))
            assert end.count("early18") == once, (name, end)

    def _wait_for(self, words: str, *, is_counted: bool = True) -> None:
        self._requests += self._runs if is_counted else 0
        wait_for(lambda: self._model.count == self._requests, SECONDS, "the requests of all")
        with suppress(AssertionError):  # the check below names the clients
            wait_for(lambda: not self._lacking(words), SECONDS)
        assert not self._lacking(words), words

    def _lacking(self, words: str) -> dict[str, list[str]]:
        """Return the last text of each client that does not show the last of these words.

        Raises the error with which a client has ended.
        """
        for answer in self._answers.values():
            if answer.done():
                answer.result()
        return {name: texts[-1:] for name, texts in self.shown.items() if f"{words}18" not in "".join(texts[-1:])}

    def _script(self, words: str) -> None:
        """Let the next answers begin with these words, and fall silent."""
        text = " ".join(f"{words}{number}" for number in range(60))
        self._model.script(*[f'text="{text}" rate=100 hang=20'] * self._runs)
