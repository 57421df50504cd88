"""The process `sockets` of a real installation, killed while messages arrive."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram, private_update
from tests.support.live_server import LiveKomand, wait_for

pytestmark = [pytest.mark.whole, pytest.mark.one_database]

MESSAGES = 12


def test_messages_that_arrive_while_it_is_killed_are_answered_once(live_komand: LiveKomand, tmp_path: Path) -> None:
    with FakeTelegram() as platform:
        add(live_komand, tmp_path, platform)
        wait_for(lambda: platform.polls, 60, "a connection")
        platform.queue(update(number) for number in range(MESSAGES // 2))
        wait_for(lambda: answers(platform), 60, "the first answer")
        killed = live_komand.kill("sockets")
        platform.queue(update(number) for number in range(MESSAGES // 2, MESSAGES))
        live_komand.wait_healthy("sockets", other_than=killed, seconds=60)
        wait_for(lambda: len(answers(platform)) == MESSAGES, 90, "an answer to each")
        assert set(answers(platform).values()) == {1}
        done = live_komand.manage("channel", "disable", "telegram", "killed")
        assert done.returncode == 0, done.stderr


def update(number: int) -> dict[str, object]:
    return private_update(number, f'[[text="answer {number}"]]', user=700 + number)


def answers(platform: FakeTelegram) -> Counter[str]:
    """Count the answers that are shown, by text."""
    return Counter(text for chat in list(platform.messages.values()) for text in list(chat.values()))


def add(komand: LiveKomand, folder: Path, platform: FakeTelegram) -> None:
    contents = {
        "config": {"api_url": platform.url, "bot_username": BOT_NAME, "receive": "polling", "drafts": False},
        "secrets": {"bot_token": TOKEN},
    }
    options = ["--access", "open", "--tools", "none", "--messages-per-day", "1000"]
    for option, content in contents.items():
        path = folder / f"{option}.json"
        path.write_text(json.dumps(content))
        options += [f"--{option}", str(path)]
    done = komand.manage("channel", "add", "telegram", "killed", *options)
    assert done.returncode == 0, done.stderr
