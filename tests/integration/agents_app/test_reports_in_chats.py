"""Workstreams that outlive the answer, in an installation with Telegram: what arrives in the chat, and when."""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chaos.live_faults_support import Installation
from tests.fakes.model_server import ModelServer
from tests.installed.installation import Up
from tests.installed.platforms.telegram import Telegram
from tests.support.examples import EXAMPLES
from tests.support.live_server import start_komand, wait_for
from tests.support.stepped_clock import COMPILER, SteppedClock

pytestmark = [
    pytest.mark.whole,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux" or not COMPILER, reason="no C compiler: LATER REPORTS NOT TESTED"),
]

ROLE = re.compile(r"as the workstream '([^']+)'")
MODES: dict[str, dict[str, Any]] = {
    "done": {},
    "changes": {"notify": "changes"},
    "silent": {"notify": "silent"},
    "asks": {},
}
TOOLS = "launch_workstream,list_workstreams,message_workstream,report_progress,ask_user"


class Model(ModelServer):
    """The model of the background researcher and of its workstreams, each of which is named as its mode."""

    def line_of(self, body: dict[str, Any]) -> str:
        messages = body["messages"]
        found, last = ROLE.search(messages[0]["content"]), str(messages[-1]["content"])
        return self._workstream(found[1], messages) if found else self._main(messages[-1]["role"], last)

    def _main(self, role: str, last: str) -> str:
        if role == "tool":
            return '[[text="I am looking into it."]]'
        if "reports progress]" in last:
            return '[[text="Half of it is read."]]'
        if heard := re.search(r"Found by \w+: \w+", last):
            return f"[[text={json.dumps(heard[0])}]]"
        mode = last.split()[-1]
        task = {"id": mode, "instruction": "Look.", "background": True, "deadline_seconds": 7200, **MODES.get(mode, {})}
        return f"[[tool=launch_workstream args={json.dumps(task)}]]" if mode in MODES else '[[text="Hello."]]'

    def _workstream(self, mode: str, messages: list[dict[str, Any]]) -> str:
        has_called = messages[-1]["role"] == "tool"
        if mode == "changes" and not has_called:
            return f"[[hold=0 tool=report_progress args={json.dumps({'text': 'Half read', 'percent': 50})}]]"
        if mode == "asks" and not has_called:
            return f"[[hold=0 tool=ask_user args={json.dumps({'question': 'Which colour?'})}]]"
        what = "red" if "Red" in str(messages[-1]) else "it"
        return f"[[{'' if mode == 'asks' else 'hold=0 '}text={json.dumps(f'Found by {mode}: {what}')}]]"


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> SteppedClock:
    return SteppedClock(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model() as model:
        yield model


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, clock: SteppedClock, model: Model) -> Iterator[Installation]:
    """Yield an installation with the example of the background researcher."""
    folder = tmp_path_factory.mktemp("chats")
    settings = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "nobody", "KOMAND_MODEL": "fake"}
    komand = start_komand(folder, **settings, **clock.environment)
    try:
        host = Installation(komand, model, "")
        [provider] = host.rows("SELECT name FROM komand_model_provider WHERE kind = 'openai'")
        example = (EXAMPLES / "agents" / "background_researcher.yaml").read_text()
        file = folder / "background_researcher.yaml"
        file.write_text(example.replace("provider: demo", f"provider: {provider['name']}"))
        done = komand.manage("agents", "import", str(file))
        assert done.returncode == 0, done.stdout + done.stderr
        yield host
        host.check_invariants()
    finally:
        komand.stop()


@pytest.fixture(scope="module")
def chat(host: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Telegram]:
    """Yield Telegram with an account that everybody may write to."""
    chat, folder = Telegram(), tmp_path_factory.mktemp("telegram")
    with chat.server:
        chat.installation = Up(host.komand)
        files = []
        for name, content in (("config", chat.config()), ("secrets", chat.secrets())):
            (folder / name).write_text(json.dumps(content))
            files += [f"--{name}", str(folder / name)]
        given = ("--access", "open", "--tools", TOOLS, "--agent", "background-researcher")
        for command in (("add", "telegram", "main", *files, *given), ("test", "telegram", "main")):
            done = host.komand.manage("channel", *command, seconds=300)
            assert done.returncode == 0, done.stdout + done.stderr
        yield chat


def begin(chat: Telegram, mode: str) -> str:
    """Have a person ask for something that takes long. Return the person, who is told that it has begun."""
    person = chat.person()
    chat.say(person, f"Look into {mode}")
    chat.wait_for(person, ["I am looking into it."])
    return person


def test_a_researcher_reports_an_hour_later(
    host: Installation, chat: Telegram, model: Model, clock: SteppedClock
) -> None:
    person = begin(chat, "done")
    clock.step(3600)
    chat.say(person, "hello")
    chat.wait_for(person, ["I am looking into it.", "Hello."])
    [run] = host.rows("SELECT status, is_on_its_own FROM komand_run WHERE workstream = 'done'")
    assert (run["status"], run["is_on_its_own"]) == ("running", 1)
    model.go_on()
    chat.wait_for(person, ["I am looking into it.", "Hello.", "Found by done: it"])


def test_progress_is_reported_and_then_the_result(chat: Telegram, model: Model) -> None:
    person = begin(chat, "changes")
    model.go_on()
    chat.wait_for(person, ["I am looking into it.", "Half of it is read."])
    model.go_on()
    chat.wait_for(person, ["I am looking into it.", "Half of it is read.", "Found by changes: it"])


def test_a_silent_one_is_heard_with_the_next_message(host: Installation, chat: Telegram, model: Model) -> None:
    person = begin(chat, "silent")
    model.go_on()
    wait_for(lambda: host.rows("SELECT id FROM komand_run WHERE workstream = 'silent' AND status = 'completed'"))
    chat.say(person, "anything new")
    chat.wait_for(person, ["I am looking into it.", "Found by silent: it"])
    [kinds] = host.rows(
        "SELECT COUNT(*) count FROM komand_run WHERE kind = 'report' AND conversation_id ="
        " (SELECT conversation_id FROM komand_run WHERE workstream = 'silent')"
    )
    assert kinds["count"] == 0


def test_its_question_comes_into_the_chat_and_the_next_message_answers_it(chat: Telegram, model: Model) -> None:
    person = begin(chat, "asks")
    model.go_on()
    wait_for(lambda: len(chat.texts(person)) == 2, what="the question")
    assert "Which colour?" in chat.texts(person)[1] and "asks" in chat.texts(person)[1]
    chat.say(person, "Red")
    wait_for(lambda: chat.texts(person)[-1] == "Found by asks: red", what="the report")
