"""The example client of the docs: it streams answers to their end, also over broken connections."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.live_server import ROOT, LiveKomand

EXAMPLE = Path(ROOT, "docs", "examples", "threads_stream.py")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("threads_stream", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_resumes_a_broken_connection(example: ModuleType, live_komand: LiveKomand) -> None:
    key = live_komand.api_key
    client, answer, broken = example.Threads(live_komand.url, key), example.Answer(), []
    whole = client.events

    def breaking(thread_id: str, last_id: str):
        for count, event in enumerate(whole(thread_id, last_id)):
            if count == 6 and not broken:
                broken.append(event)
                raise OSError("cut")
            yield event

    client.events = breaking
    for name, data in client.ask("[[tokens=30 rate=60]]"):
        answer.see(name, data)
    assert broken and answer.text.split() == [f"tok{number}" for number in range(30)]
