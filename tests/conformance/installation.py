"""Suites against a whole installation: the MCP Inspector's CLI, and llm-comply on the OpenAI surface."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand, start_komand

_SECONDS = 60  # of one program
_FORMATS = ("openai-chat", "open-responses")
_WEATHER = 'tool=get_weather args={"location":"San Francisco"}'
_SKILL = {
    "skillId": "greeting",
    "name": "G",
    "version": "1.0.0",
    "publisherId": "us",
    "instruction": {"body": "Greet."},
}
# A method, its options, and what is true of its result.
Request = tuple[str, list[str], Callable[[Any], bool]]


class _Model(ModelServer):
    """A model that obeys `tool_choice`: the suites send no directives."""

    def line_of(self, body: dict[str, Any]) -> str:
        has_to_call = body.get("tool_choice") == "required"
        return f"[[{_WEATHER}]]" if has_to_call else super().line_of(body)


@contextmanager
def installed(folder: Path) -> Iterator[LiveKomand]:
    """Run an installation with an instruction skill until the block ends."""
    with _Model() as model:
        komand = start_komand(folder, OPENAI_BASE_URL=model.base_url, OPENAI_API_KEY="test-key-of-nobody")
        try:
            headers = {"Authorization": f"Bearer {komand.api_key}"}
            httpx2.post(f"{komand.url}/api/skills", json=_SKILL, headers=headers, timeout=30).raise_for_status()
            yield komand
        finally:
            komand.stop()


def run_inspector(modules: Path, komand: LiveKomand) -> dict[str, bool]:
    """Make each request by the CLI. Returns for each method whether its result is right."""
    results = {}
    found: dict[str, Any] = {}
    for method, options, is_right in _requests(found):
        command = [str(modules / ".bin" / "node"), str(modules / ".bin" / "inspector"), "--cli", f"{komand.url}/mcp"]
        command += ["--transport", "http", "--header", f"Authorization: Bearer {komand.api_key}", "--method", method]
        environment = {**os.environ, "HOME": str(modules.parent)}
        done = subprocess.run(
            [*command, *options], env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        found[method] = json.loads(done.stdout) if done.returncode == 0 else {}
        results[method] = done.returncode == 0 and is_right(found[method])
        if not results[method]:
            print(method, done.stdout[-2000:], done.stderr[-2000:])  # noqa: T201
    return results


def _requests(found: dict[str, Any]) -> Iterator[Request]:
    """Yield the requests. found: the results of those before, by method."""
    message = ["--tool-name", "ask_agent", "--tool-arg", 'message=[[text="Hello there"]]']
    yield "tools/list", ["--strict"], lambda result: "ask_agent" in {tool["name"] for tool in result["tools"]}
    yield "tools/call", message, lambda result: result["structuredContent"]["text"] == "Hello there"
    yield "resources/list", [], lambda result: bool(result["resources"])
    yield "resources/templates/list", [], lambda result: len(result["resourceTemplates"]) == 3
    listed = [each["uri"] for each in found["resources/list"].get("resources", ())]
    uri = next((uri for uri in listed if "/sessions/" in uri), "komand://none")
    yield "resources/read", ["--uri", uri], lambda result: "Hello there" in result["contents"][0]["text"]
    yield "prompts/list", [], lambda result: [prompt["name"] for prompt in result["prompts"]] == ["skill/greeting"]
    prompt = ["--prompt-name", "skill/greeting"]
    yield "prompts/get", prompt, lambda result: result["messages"][0]["content"]["text"] == "Greet."


def run_comply(packages: Path, komand: LiveKomand) -> dict[str, dict[str, bool | None]]:
    """Run llm-comply for each format. Returns for each case whether it passed; None if the suite left it out."""
    environment = {**os.environ, "PYTHONPATH": str(packages), "OPENRESPONSES_API_KEY": komand.api_key}
    results = {}
    for name in _FORMATS:
        command = [sys.executable, "-m", "llm_comply.cli", "--base-url", f"{komand.url}/v1", "--model", "default"]
        done = subprocess.run(
            [*command, "--format", name, "--json"], env=environment, capture_output=True, text=True, timeout=_SECONDS
        )
        cases = json.loads(done.stdout)["results"] if done.stdout else []
        results[name] = {case["id"]: {"passed": True, "skipped": None}.get(case["status"], False) for case in cases}
        if False in results[name].values() or not cases:
            print(name, done.stdout, done.stderr[-2000:])  # noqa: T201
    return results
