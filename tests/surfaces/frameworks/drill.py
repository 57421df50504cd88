"""The function tool, the picture, and the exchange with the test that the programs of the frameworks share.

A program gets `{"url", "key", "model", "protocol"}` as its argument and writes the names of its scenarios. It answers
each line of its input, `{"scenario", "arguments"}`, by a line `{"result"}` or `{"error"}`. All lines are JSON.
"""

import asyncio
import json
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from pydantic import BaseModel

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # a red point
)
PICTURE = f"data:image/png;base64,{PIXEL}"

request: dict[str, str] = json.loads(sys.argv[1])
url, key, model, protocol = f"{request['url']}/v1", request["key"], request["model"], request["protocol"]

_pauses = False
_loop = asyncio.new_event_loop()


class Weather(BaseModel):
    """The weather of a city."""

    city: str
    degrees: int


def read_weather(city: str) -> str:
    """Read the weather of a city.

    Args:
        city: The name of the city.
    """
    if _pauses:
        _write({"paused": city})
        sys.stdin.readline()
    return f"{len(city)} degrees in {city}"


def wait(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on the one loop of the program, to which the connections of its client belong."""
    return _loop.run_until_complete(work)


def run(*scenarios: Callable[..., Any], answers_by: str = "", structures_by: str = "") -> None:
    """Answer the lines of the input until it ends.

    answers_by: the tool by which the framework wants the last answer, if it is one.
    structures_by: the tool by which it wants structured output.
    """
    global _pauses
    known = {scenario.__name__: scenario for scenario in scenarios}
    _write({"scenarios": sorted(known), "answersBy": answers_by, "structuresBy": structures_by})
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        _pauses = asked.get("pauses", False)
        try:
            _write({"result": known[asked["scenario"]](*asked["arguments"])})
        except Exception:
            _write({"error": traceback.format_exc()[-3000:]})


def _write(line: dict[str, Any]) -> None:
    sys.__stdout__.write(f"{json.dumps(line)}\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]
