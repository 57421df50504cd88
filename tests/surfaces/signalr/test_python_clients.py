"""The clients pysignalr and signalrcore on the hub, with an API key."""

from pathlib import Path

import pytest

from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand
from tests.surfaces import pypi

pytestmark = pytest.mark.npm


@pytest.mark.parametrize("client", ["pysignalr", "signalrcore"])
def test_an_answer_comes_token_by_token_and_a_wrong_call_has_its_error(
    client: str, live_komand: LiveKomand, model_server: ModelServer
) -> None:
    # By a script: the session is shared with other tests, and a message without an answer is sent with the next one.
    model_server.clear_script()
    model_server.script('tool=calculator args={"expression":"17*23"}', 'text="It is 391."')
    script = Path(__file__).with_name("python_clients.py")
    request = {"url": f"{live_komand.url}/hubs/chat", "key": live_komand.api_key, "client": client}
    found = pypi.run_script(pypi.foreign(), script, {**request, "text": "what is 17*23?"})
    names = [name for name, _ in found["seen"]]
    assert names[0] == "AgentTyping" and names[-2:] == ["ReceiveMessage", "AgentTyping"]
    assert {"ToolStarted", "ToolCompleted", "ReceiveToken"} <= set(names)
    (message,) = next(arguments for name, arguments in found["seen"] if name == "ReceiveMessage")
    tokens = "".join(arguments[1] or "" for name, arguments in found["seen"] if name == "ReceiveToken")
    assert "391" in message["text"] and message["text"] == tokens.strip()
    results = [answer["result"]["messageId"] for answer in found["answers"] if answer["result"]]
    errors = [answer["error"] for answer in found["answers"] if answer["error"]]
    assert results == [message["messageId"]] and len(errors) == 1 and "nobody" in errors[0]
