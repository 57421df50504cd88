"""The demo model as the agent of a team: it launches a workstream for each part of a message, and reports results."""

import json
import re
from collections.abc import Mapping, Sequence

from agents_app.prompt.tool_output_markers import unmark
from agents_app.providers.kinds.demo import texts
from agents_app.providers.kinds.demo.intents import Intent
from agents_app.types import Message
from agents_app.types.child_runs import LAUNCH_TOOL

_HEADER = re.compile(r"^\[Workstream (?P<id>[^ \n]+) \([0-9a-f-]+\) (?P<state>[a-z ]+)\]$", re.MULTILINE)
_MARKER = re.compile(r"^\[(?:end of )?tool output \w{12}\]\n?", re.MULTILINE)
_INSTRUCTIONS = {
    "calculator": "What is {expression}?",
    "date_time": "What time is it in {timezone}?",
    "echo": "echo {text}",
    "ask_user": "Ask me: {question}",
    "web_fetch": "Read {url}",
    "write_artifact": "Write the file {path}",
}
_NAMES = {
    "ask_user": "question",
    "calculator": "arithmetic",
    "date_time": "clock",
    "echo": "echo",
    "web_fetch": "page",
    "write_artifact": "file",
}


def is_report(message: Message) -> bool:
    """Return whether a message of the user's role reports about workstreams."""
    return message.role == "user" and message.content.startswith("[Workstream ")


def last_written(messages: Sequence[Message]) -> int | None:
    """Return the place of the last message that a person wrote."""
    written = (at for at, message in enumerate(messages) if message.role == "user" and not is_report(message))
    return max(written, default=None)


def launches(intents: Sequence[Intent]) -> tuple[Intent, ...]:
    """Return a workstream for each intent of a message; none for a message with one, which is no work for a team."""
    if len(intents) < 2:
        return ()
    return tuple(_launch(number, intent) for number, intent in enumerate(intents, start=1))


def _launch(number: int, intent: Intent) -> Intent:
    task = _INSTRUCTIONS[intent.tool].format(**intent.arguments)
    name = f"Part {number}, {_NAMES[intent.tool]}"
    return Intent(LAUNCH_TOOL, {"id": f"part_{number}", "name": name, "instruction": task})


def reports(messages: Sequence[Message]) -> Mapping[str, tuple[str, str]]:
    """Return the state and the text of each workstream that the messages report about, by its id."""
    found: dict[str, tuple[str, str]] = {}
    for message in filter(is_report, messages):
        headers = [*_HEADER.finditer(message.content)]
        ends = [*(header.start() for header in headers[1:]), len(message.content)]
        for header, end in zip(headers, ends, strict=True):
            text = _MARKER.sub("", message.content[header.end() : end]).strip()
            found[header["id"]] = (header["state"], text)
    return found


def launched(messages: Sequence[Message]) -> dict[str, str]:
    """Return the names of the workstreams that the messages have launched, by id. Refused launches are left out."""
    made = {message.tool_call_id for message in messages if unmark(message.content).startswith("{")}
    calls = [call for message in messages for call in message.tool_calls if call.name == LAUNCH_TOOL]
    given = [json.loads(call.arguments) for call in calls if call.id in made]
    return {one["id"]: one["name"] for one in given}


def summary(names: Mapping[str, str], messages: Sequence[Message]) -> list[str]:
    """Return a list item for each workstream, with what it has reported."""
    found = reports(messages)
    return [_item(name, *found.get(key, ("has not reported", ""))) for key, name in names.items()]


def _item(name: str, state: str, text: str) -> str:
    result = text.removeprefix(texts.FOUND).removesuffix(texts.FOOTER.strip()).strip()
    line = " ".join(each.strip().removeprefix("- ") for each in result.splitlines() if each.strip())
    return f"- *{name}:* {line}" if state == "completed" else f"- *{name}* {state}. {line}".rstrip()
