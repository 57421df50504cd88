"""Tools of a client: as its requests declare them, and their calls as the responses name them. Pure.

Chat Completions: `tools[].function`. Responses: `tools[]` of type `function`. API reference: "tools", "tool_choice".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents_app.types import RunTranscript, Usage
from sessions_app.surfaces.base.function_tools import MOST_TOOLS, check_distinct, invalid_param, read_function
from tools_app.types import ExecutionView


def read_tools(body: Mapping[str, Any]) -> tuple[list[dict[str, Any]] | None, str]:
    """Return (the tools of a request, None for none; its tool choice, see `RunOptions`). Raises InvalidInput.

    With the choice `none` no tool is offered.
    """
    if body.get("functions"):
        message = "functions is not supported: name the functions in tools."
        raise invalid_param(message, "functions", "unsupported_parameter")
    given, choice = body.get("tools") or [], body.get("tool_choice") or "auto"
    if not isinstance(given, list) or len(given) > MOST_TOOLS:
        raise invalid_param(f"tools must be a list of at most {MOST_TOOLS} functions.", "tools")
    tools = [_read_tool(tool, f"tools[{index}]") for index, tool in enumerate(given)]
    names = check_distinct(tools)
    if choice == "none" or not tools:
        return None, ""
    return tools, _read_choice(choice, names)


def _read_tool(tool: Any, param: str) -> dict[str, Any]:
    kind = tool.get("type") if isinstance(tool, Mapping) else None
    if kind != "function":
        message = f"{param}: a tool must be of the type function. {kind!r} is not offered: the agent has its own tools."
        raise invalid_param(message, param, "unsupported_tool")
    return read_function(tool.get("function", tool), param)


def _read_choice(choice: Any, names: Sequence[str]) -> str:
    if choice in ("auto", "required"):
        return "" if choice == "auto" else "required"
    named = choice.get("function", choice) if isinstance(choice, Mapping) else None
    name = named.get("name") if isinstance(named, Mapping) else None
    if name not in names or choice.get("type") != "function":
        message = "tool_choice must be none, auto, required, or a function of the tools that are sent."
        raise invalid_param(message, "tool_choice")
    return str(name)


def tools_as_sent(tools: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Return the tools of a run's client, as a response repeats them."""
    return [{"type": "function", **tool, "strict": False} for tool in tools or ()]


def choice_as_sent(choice: str) -> Any:
    """Return the tool choice of a run's client, as a response repeats it."""
    return {"type": "function", "name": choice} if choice not in ("", "required") else choice or "auto"


@dataclass(frozen=True)
class Part:
    """The part of a run that one answer shows.

    transcript: with the steps and executions of the part.
    calls: those that the answer returns to the client.
    usage: what the part has used; of a whole run also what no recorded step has used.
    """

    transcript: RunTranscript
    calls: tuple[ExecutionView, ...]
    usage: Usage


def part_from(transcript: RunTranscript, first_step: int) -> Part:
    """Return the part of a run that begins with this step.

    A run that calls tools of its client is shown by several answers: the first up to these calls, the others from the
    step after the outputs. A run without such calls is one part.
    """
    returned = sorted({each.step for each in transcript.executions if each.client_until and each.step >= first_step})
    if not returned and not first_step:
        return Part(transcript, (), transcript.usage)
    last = returned[0] if returned else math.inf
    part = replace(
        transcript,
        steps=tuple(step for step in transcript.steps if first_step <= step.index <= last),
        executions=tuple(each for each in transcript.executions if first_step <= each.step <= last),
        answer="" if returned else transcript.answer,
    )
    calls = tuple(each for each in part.executions if each.client_until)
    return Part(part, calls, sum((step.usage for step in part.steps), Usage()))
