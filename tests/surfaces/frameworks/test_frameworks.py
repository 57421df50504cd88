"""Agent frameworks, unchanged, against a whole installation: their own tools, streams, structured output, pictures.

Those of Python run in the virtualenv of `requirements-foreign.lock`, which `make foreign` makes.
"""

import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx2
import pytest

from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand
from tests.surfaces import npm, pypi

pytestmark = pytest.mark.npm

_CALLS = ['tool=read_weather args={"city":"Oslo"}', 'loop tool=read_weather args={"city":"Rome"}']
_WEATHER = {"city": "Oslo", "degrees": 4}


class Program:
    """A running program of a framework: see drill.py."""

    def __init__(self, process: "subprocess.Popen[str]", model_server: ModelServer) -> None:
        assert process.stdin and process.stdout
        self._input: IO[str] = process.stdin
        self._output: IO[str] = process.stdout
        self._model = model_server
        hello = self._read()
        self.scenarios: list[str] = hello["scenarios"]
        self._answers_by: str = hello["answersBy"]
        self.structures_by: str = hello["structuresBy"]

    def _read(self) -> dict[str, Any]:
        line = self._output.readline()
        assert line, "the program ended"
        found: dict[str, Any] = json.loads(line)
        assert "error" not in found, found["error"]
        return found

    def answer(self, text: str) -> str:
        """Return the line of the model's script for a last answer of the framework's agent."""
        tool = f"loop tool={self._answers_by} args={json.dumps({'answer': text})}"
        return tool if self._answers_by else f"text={json.dumps(text)}"

    def start(self, scenario: str, *arguments: str, script: tuple[str, ...], pauses: bool = False) -> None:
        self._model.clear_script()
        self._model.script(*script)
        self._input.write(f"{json.dumps({'scenario': scenario, 'arguments': arguments, 'pauses': pauses})}\n")
        self._input.flush()

    def go_on(self) -> None:
        """Let the function tool return that waits."""
        self._input.write("\n")
        self._input.flush()

    def paused(self) -> str:
        """Return the city whose weather the function tool, which waits now, was asked for."""
        city: str = self._read()["paused"]
        return city

    def result(self) -> Any:
        return self._read()["result"]

    def run(self, scenario: str, *arguments: str, script: tuple[str, ...]) -> Any:
        self.start(scenario, *arguments, script=script)
        return self.result()


@contextmanager
def _started(command: list[str], folder: Path, model_server: ModelServer) -> Iterator[Program]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield Program(process, model_server)
        except AssertionError as failure:
            errors.seek(0)
            raise AssertionError(f"{failure}\n{errors.read()[-3000:]}") from failure
        finally:
            process.kill()
            process.communicate()
            model_server.reset()


@pytest.fixture(scope="module")
def seeing(live_komand: LiveKomand) -> str:
    """Create an agent with a model that takes pictures. Return its name."""
    body = {"agentId": "seeing", "name": "Seeing", "systemPrompt": "Be short.", "modelId": "gpt-4o"}
    headers = {"Authorization": f"Bearer {live_komand.api_key}"}
    httpx2.post(f"{live_komand.url}/api/agents", json=body, headers=headers, timeout=30).raise_for_status()
    return "seeing"


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("name", "protocol"),
    [
        ("openai_agents", "chat"),
        ("openai_agents", "responses"),
        ("langchain_chat", "chat"),
        ("langchain_chat", "responses"),
        ("pydantic_ai_agent", "chat"),
        ("pydantic_ai_agent", "responses"),
        ("llama_index_chat", "chat"),
        ("litellm_chat", "chat"),
        ("instructor_chat", "chat"),
        ("smolagents_agent", "chat"),
    ],
)
def test_a_framework_of_python(
    name: str, protocol: str, live_komand: LiveKomand, seeing: str, model_server: ModelServer, tmp_path: Path
) -> None:
    python, script = pypi.foreign(), Path(__file__).with_name(f"{name}.py")
    request = {"url": live_komand.url, "key": live_komand.api_key, "model": seeing, "protocol": protocol}
    with _started([str(python), str(script), json.dumps(request)], tmp_path, model_server) as program:
        _drill(program, live_komand, model_server)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("npm")
    yield npm.install(folder, "ai@7.0.173", "@ai-sdk/openai@4.0.118", "openai@7.59.0", "zod@4")
    npm.discard(folder)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("protocol", ["chat", "responses"])
@pytest.mark.parametrize("name", ["ai_sdk", "openai_sdk"])
def test_a_library_of_node(
    name: str, protocol: str, live_komand: LiveKomand, seeing: str, model_server: ModelServer, modules: Path
) -> None:
    for script in ("program.mjs", f"{name}.mjs"):
        shutil.copy(Path(__file__).with_name(script), modules.parent)
    request = {"url": live_komand.url, "key": live_komand.api_key, "model": seeing, "protocol": protocol}
    node = shutil.which("node")
    assert node
    with _started([node, f"{name}.mjs", json.dumps(request)], modules.parent, model_server) as program:
        _drill(program, live_komand, model_server)


def _drill(program: Program, live_komand: LiveKomand, model_server: ModelServer) -> None:
    """Run every scenario of a program, and at last one whose installation is restarted between call and output."""
    known = set(program.scenarios)
    if "tools" in known:
        text = program.run("tools", "Oslo and Rome?", script=(*_CALLS, program.answer("4 and 4")))
        assert text == "4 and 4"
        sent = json.dumps(model_server.messages)
        assert "4 degrees in Oslo" in sent and "4 degrees in Rome" in sent
    if "hand_off" in known:
        found = program.run("hand_off", "Who knows?", script=("tool=transfer_to_expert", 'text="I do."'))
        assert found == ["Expert", "I do."]
    if "stream" in known:
        pieces = program.run("stream", "Count.", script=("tokens=12 rate=60",))
        assert "".join(pieces).split() == [f"tok{n}" for n in range(12)] and len(pieces) > 3
    if "cut" in known:
        assert len(program.run("cut", "Count long.", script=("tokens=24 rate=50 hold=20",))) == 3
        # Ends the answer that its client reads no more: at the restart below, its run would use up the script.
        model_server.go_on()
    if "structured" in known:
        assert program.run("structured", "Oslo?", script=(f"text={json.dumps(json.dumps(_WEATHER))}",)) == _WEATHER
        assert model_server.requests[-1].body["response_format"]["type"] == "json_schema"
    if "structured_by_tool" in known:
        call = f"tool={program.structures_by} args={json.dumps(_WEATHER)}"
        assert program.run("structured_by_tool", "Oslo?", script=(call,)) == _WEATHER
    if "picture" in known:
        program.run("picture", "What is it?", script=(program.answer("A point."),))
        assert '"type": "image_url"' in json.dumps(model_server.messages)
    if "second" in known:
        answers = (program.answer("First."), program.answer("Second."))
        assert program.run("second", "One?", "Two?", script=answers) == "Second."
        assert "First." in json.dumps(model_server.messages[:-1])
    if "respond" in known:
        assert program.run("respond", "Hello", script=('text="Hello there"',)) == "Hello there"
    if "tools" in known:
        program.start("tools", "Oslo?", script=(_CALLS[0], program.answer("Still 4")), pauses=True)
        assert program.paused() == "Oslo"
        _restart(live_komand)
        program.go_on()
        assert program.result() == "Still 4"


def _restart(live_komand: LiveKomand) -> None:
    """Kill the web process and all that execute runs, and wait until they are back."""
    pids = {name: live_komand.kill(name, signal.SIGKILL) for name in ("web", "runs-1")}
    for name, pid in pids.items():
        live_komand.wait_healthy(name, other_than=pid)
