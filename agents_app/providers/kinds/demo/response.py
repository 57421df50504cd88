"""The decision of the demo model: a pure function of the messages and the offered tools."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agents_app.prompt.tool_output_markers import split_memories
from agents_app.providers.kinds.demo import result_text, texts
from agents_app.providers.kinds.demo.intents import Intent, find_intents, supported
from agents_app.types import Message
from tools_app.profiles import FIND_TOOLS
from tools_app.types import ToolSpec

_FILES = "\n\n[Attached "  # begins the description of the files of a message
_COMMAND = re.compile(r"\s*/demo\b\s*(\w*)\s*", re.IGNORECASE)
_GREETING = re.compile(
    r"\s*(?:hi|hello|hey|help|start|good\s+(?:morning|day|evening)|what\s+can\s+you\s+do|who\s+are\s+you)\b[\s\w]{0,20}[.!?]*\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Decision:
    """Stream `text`; then fail if `fails`, else call the tools of `intents`, if any."""

    text: str
    intents: tuple[Intent, ...] = ()
    fails: bool = False


def decide(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Decision:
    """Return the next response. messages: a history that ends with a user turn or with tool results."""
    last_user = max((at for at, message in enumerate(messages) if message.role == "user"), default=None)
    if last_user is None:
        return Decision(texts.INTRODUCTION)
    _, content = split_memories(messages[last_user].content)
    written, _, _ = content.partition(_FILES)  # what the files contain asks for nothing
    since = messages[last_user + 1 :]
    made = {call.name for message in since for call in message.tool_calls}
    if FIND_TOOLS in made:
        found = tuple(intent for intent in supported(find_intents(written), tools) if intent.tool not in made)
        if found:
            return Decision(texts.calling(len(found)), found)
    results = _results(since)
    if results:
        return Decision("\n".join([texts.FOUND, "", *results]) + texts.FOOTER)
    return _first_decision(written, () if made else tools)


def _first_decision(text: str, tools: Sequence[ToolSpec]) -> Decision:
    # Messages without an answer, such as one whose run failed, come merged with the next one as paragraphs.
    newest = text.rsplit("\n\n", 1)[-1]
    command = _COMMAND.fullmatch(newest)
    if command:
        name = command[1].lower()
        if name == "error":
            return Decision(texts.BEFORE_ERROR, fails=True)
        return Decision(texts.COMMANDS.get(name, texts.INTRODUCTION))
    intents = find_intents(text)
    calls = supported(intents, tools)
    missing = [intent.tool for intent in intents if intent not in calls]
    if missing:
        calls += supported([Intent(FIND_TOOLS, {"query": missing[0]})], tools)
    if calls:
        return Decision(texts.calling(len(calls)), calls)
    if intents:
        names = sorted({intent.tool for intent in intents})
        return Decision(texts.not_offered(names) + texts.FOOTER)
    if _GREETING.fullmatch(newest):
        return Decision(texts.INTRODUCTION)
    return Decision(f"{texts.NOT_UNDERSTOOD}\n\n{texts.REAL_MODEL}")


def _results(messages: Sequence[Message]) -> list[str]:
    calls = {call.id: call for message in messages for call in message.tool_calls}
    described = []
    for message in messages:
        call = calls.get(message.tool_call_id) if message.role == "tool" else None
        if call and call.name != FIND_TOOLS:
            described.append(result_text.describe(call.name, call.arguments, message.content))
    return described
