"""The real `zeroclaw-api-client` against a whole installation: its models check each answer."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.live_server import LiveKomand
from tests.surfaces import pypi

pytestmark = pytest.mark.npm

ASKED, ANSWER = "[[tokens=5 rate=200]]", "tok0 tok1 tok2 tok3 tok4"
Story = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def tell(live_komand: LiveKomand) -> Story:
    python, script = pypi.foreign(), Path(__file__).with_name("client.py")

    def tell(story: str, **given: Any) -> dict[str, Any]:
        request = {"url": live_komand.url, "key": live_komand.api_key, "story": story, **given}
        found: dict[str, Any] = pypi.run_script(python, script, request)
        return found

    return tell


def test_the_webhook_and_the_sessions_of_the_client(tell: Story) -> None:
    found = tell("webhook", text=ASKED)
    found["messages"] = [[role, content.strip()] for role, content in found["messages"]]
    assert found == {
        "response": ANSWER,
        "duplicate": True,
        "key": "gw_trip",
        "name": ["Paris"],
        "messages": [["user", ASKED], ["assistant", ANSWER]],
        "state": "idle",
        "stopped": False,
        "deleted": 404,
    }


def test_the_chat_streams_and_resumes(tell: Story) -> None:
    found = tell("chat", text=ASKED)
    assert "391" in found["answer"] and found["tokens"] > 0
    assert found["chunks"].strip() == found["done"] == ANSWER and found["resumed"] == [False, True, True]


def test_the_client_answers_an_approval(tell: Story) -> None:
    text = '[[tool=memory_store args={"key":"car","text":"blue"}]]'
    for decision in ("approve", "deny"):
        found = tell("approval", agent="default", text=text, decision=decision)
        assert found["tool"] == "memory_store" and found["seconds"] > 0 and found["types"][-1] == "done"


def test_memories_schedules_events_and_costs_of_the_client(tell: Story) -> None:
    assert tell("reports", text=ASKED) == {
        "entries": [["bike/main", "It is violet."]],
        "forgotten": [True, False],
        "kinds": ["agent_start", "agent_end"],
        "history": True,
        "run": [True, ANSWER],
        "runs": [["ok", ANSWER]],
        "enabled": [True, False],
        "listed": True,
        "shell": 400,
        "requests": True,
        "channels": 0,
        "settings": 501,
    }


def test_the_client_is_paired_by_a_code_of_the_page(tell: Story, live_komand: LiveKomand) -> None:
    with httpx2.Client(base_url=live_komand.url, headers={"Origin": live_komand.url}) as browser:
        form = {"username": "admin", "password": live_komand.password}
        browser.get("/login")
        browser.post("/login", data={**form, "csrfmiddlewaretoken": browser.cookies["komand_csrf"]})
        token = {"csrfmiddlewaretoken": browser.cookies["komand_csrf"]}
        page = browser.post("/account/devices/code", data=token, headers={"Referer": live_komand.url}).text
    code = re.search(r"<code>([0-9 ]+)</code>", page)
    assert code, page
    assert tell("pairing", key="", code=code[1]) == {
        "required": True,
        "devices": 1,
        "again": 403,
        "new code": 501,
        "removed": 401,
    }


def test_what_is_refused_has_the_errors_that_the_client_knows(tell: Story) -> None:
    assert tell("refusals") == {
        "unknown agent": "unknown_agent",
        "wrong key": 401,
        "wrong key in chat": 403,
        "not served": 501,
        "health": "ok",
        "status": "default",
    }
