"""Channels on all processes of Komand: a bot is added from the command line, gets a message, and answers."""

import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.fakes.model_server import ModelServer
from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram, private_update
from tests.support.live_server import LiveKomand, wait_for

pytestmark = pytest.mark.one_database

SECRET = "live-secret-0123456789"


@pytest.fixture
def bot(live_komand: LiveKomand, platform: FakeTelegram, tmp_path: Path) -> Iterator[str]:
    """Return a new account name for each test."""
    name = add_bot(live_komand, platform, tmp_path, "--tools", "none")
    yield name
    live_komand.manage("channel", "disable", "telegram", name)  # its platform ends with the test


@pytest.fixture
def team_bot(live_komand: LiveKomand, platform: FakeTelegram, tmp_path: Path) -> Iterator[str]:
    """Return the name of an account of the agent that launches workstreams."""
    name = add_bot(live_komand, platform, tmp_path, "--agent", "team", "--tools", "launch_workstream")
    yield name
    live_komand.manage("channel", "disable", "telegram", name)


def add_bot(komand: LiveKomand, platform: FakeTelegram, tmp_path: Path, *options: str) -> str:
    name = f"bot{time.monotonic_ns()}"
    config = {"api_url": platform.url, "bot_username": BOT_NAME, "chat_seconds": 0}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "secrets.json").write_text(json.dumps({"bot_token": TOKEN, "webhook_secret": SECRET}))
    files = ["--config", str(tmp_path / "config.json"), "--secrets", str(tmp_path / "secrets.json")]
    added = komand.manage("channel", "add", "telegram", name, *files, "--access", "open", *options)
    assert added.returncode == 0, added.stderr
    return name


def send(komand: LiveKomand, bot: str, update: dict[str, Any]) -> int:
    headers = {"x-telegram-bot-api-secret-token": SECRET}
    return httpx2.post(f"{komand.url}/channels/telegram/{bot}/webhook", json=update, headers=headers).status_code


def test_a_message_is_answered(live_komand: LiveKomand, platform: FakeTelegram, bot: str) -> None:
    for _ in range(3):
        assert send(live_komand, bot, private_update(1, "hello [[tokens=5]]")) == 200
    wait_for(lambda: platform.chat(501), 60, "the answer")
    assert platform.chat(501) == ["tok0 tok1 tok2 tok3 tok4"]


def test_a_command_is_answered_while_an_answer_is_being_written(
    live_komand: LiveKomand, platform: FakeTelegram, model_server: ModelServer, bot: str
) -> None:
    assert send(live_komand, bot, private_update(1, "hello [[tokens=2 hold=1]]")) == 200
    assert send(live_komand, bot, private_update(2, "/status")) == 200
    wait_for(lambda: platform.chat(501), 60, "the notice")
    model_server.go_on()
    wait_for(lambda: len(platform.chat(501)) == 2, 60, "the answer")
    assert platform.chat(501)[-1] == "tok0 tok1"


def test_a_chat_writes_to_a_workstream_and_reads_its_answer(
    live_komand: LiveKomand, platform: FakeTelegram, team_bot: str
) -> None:
    updates = itertools.count(1)

    def say(text: str) -> Callable[[str], bool]:
        """Send a message, and return a function that returns whether a later message of the bot has a text."""
        known = len(platform.chat(501))
        assert send(live_komand, team_bot, private_update(next(updates), text)) == 200
        wait_for(lambda: len(platform.chat(501)) > known, 60, "a reply")
        return lambda wanted: any(wanted in reply for reply in platform.chat(501)[known:])

    def has_reply(text: str, wanted: str) -> None:
        reply = say(text)
        wait_for(lambda: reply(wanted), 60, f"{wanted!r} after {platform.chat(501)}")

    deep = {"id": "deep", "name": "Deep one", "instruction": '[[text="Ready."]]', "interactive": True}
    say(f'[[tools={json.dumps([["launch_workstream", deep]])} text="They work."]]')
    # At most 12 messages a minute: a sender gets 20 answered.
    wait_for(lambda: say("/agents")("Deep one: waiting for a message"), 150, "the workstream", every=5)
    has_reply('/agents 1 [[text="The second is blue."]]', "Sent to: 1.")
    wait_for(lambda: say("/agents 1")("The second is blue."), 150, "its answer", every=5)
    has_reply("/agents 1 pause", "Paused: 1.")
    has_reply("/agents", "Deep one: paused")
    has_reply("/agents all stop", "Stopped: 1.")


def test_a_workstream_in_the_background_is_reported_to_the_chat_after_its_worker_has_died(
    live_komand: LiveKomand, platform: FakeTelegram, team_bot: str
) -> None:
    # The result reaches the model of the agent, whose answer it sets.
    found = json.dumps("slow " * 40 + '[[text="The boats are good."]]')
    find = {"id": "find", "instruction": f"[[text={found} rate=8]]", "background": True}
    calls = json.dumps([["launch_workstream", find]])
    assert send(live_komand, team_bot, private_update(1, f'[[tools={calls} text="I look into it."]]')) == 200
    wait_for(lambda: "I look into it." in "".join(platform.chat(501)), 60, "the answer")
    assert send(live_komand, team_bot, private_update(2, 'And you? [[text="Fine."]]')) == 200
    wait_for(lambda: "Fine." in platform.chat(501), 60, "the answer to another message")
    live_komand.kill_runs()
    wait_for(lambda: platform.chat(501)[-1] == "The boats are good.", 60, "the report")
    assert platform.chat(501).count("The boats are good.") == 1


def test_a_worker_that_dies_in_mid_answer_costs_the_chat_nothing(
    live_komand: LiveKomand, platform: FakeTelegram, bot: str
) -> None:
    send(live_komand, bot, private_update(1, "hello [[tokens=60 rate=20]]"))
    wait_for(lambda: "sendMessageDraft" in platform.methods(), 60, "a preview")
    live_komand.kill_runs()
    wait_for(lambda: platform.chat(501), 40, "the answer")
    assert platform.chat(501) == [" ".join(f"tok{number}" for number in range(60))]


def test_a_file_is_fetched_by_a_worker(
    live_komand: LiveKomand, platform: FakeTelegram, model_server: ModelServer, bot: str
) -> None:
    platform.files["notes"] = f"the words of {bot}".encode()
    file = {"file_id": "notes", "file_name": "notes.txt"}
    assert send(live_komand, bot, private_update(1, "", document=file, caption="read [[tokens=2]]")) == 200
    wait_for(lambda: platform.chat(501), 60, "the answer")
    assert any(f"the words of {bot}" in json.dumps(request.body) for request in model_server.requests)


def test_a_bot_without_a_public_address_answers_once_though_its_process_is_killed(
    live_komand: LiveKomand, platform: FakeTelegram, bot: str
) -> None:
    """The fixture's bot has no webhook at the platform, as the installation has no public address."""
    platform.queue([private_update(31, "/help")])
    wait_for(lambda: platform.chat(501), 60, "the answer")
    for number in range(2):
        [pid] = [part["pid"] for part in live_komand.status()["processes"] if part["name"] == "sockets"]
        os.kill(pid, signal.SIGKILL)
        platform.queue([private_update(32 + number, "/help")])
        wait_for(lambda number=number: len(platform.chat(501)) == 2 + number, 60, "the answer after the crash")
    wait_for(lambda: not platform.updates, 60, "the confirmation of the last update")
    assert len(platform.chat(501)) == 3
