"""What the demo model does next: a pure function of the messages and of the tools that are offered."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agents_app.providers.kinds.demo import result_text, texts
from agents_app.providers.kinds.demo.intents import Wish, granted, wishes_in
from agents_app.types import Message
from tools_app.types import ToolSpec

_COMMAND = re.compile(r"\s*/demo\b\s*(\w*)\s*", re.IGNORECASE)
_GREETING = re.compile(
    r"\s*(?:hi|hello|hey|help|start|good\s+(?:morning|day|evening)|what\s+can\s+you\s+do|who\s+are\s+you)\b[\s\w]{0,20}[.!?]*\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Decision:
    """Say `text`; then fail if `fails`, else call the tools of `wishes`, if any."""

    text: str
    wishes: tuple[Wish, ...] = ()
    fails: bool = False


def decide(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Decision:
    """messages: a history that ends with what has to be answered: a user's message or tool results."""
    asked = max((at for at, message in enumerate(messages) if message.role == "user"), default=None)
    if asked is None:
        return Decision(texts.INTRODUCTION)
    found = _results(messages[asked + 1 :])
    if found:
        return Decision("\n".join([texts.FOUND, "", *found]) + texts.FOOTER)
    return _first_decision(messages[asked].content, tools)


def _first_decision(text: str, tools: Sequence[ToolSpec]) -> Decision:
    command = _COMMAND.fullmatch(text)
    if command:
        name = command[1].lower()
        if name == "error":
            return Decision(texts.BEFORE_ERROR, fails=True)
        return Decision(texts.COMMANDS.get(name, texts.INTRODUCTION))
    wanted = wishes_in(text)
    wishes = granted(wanted, tools)
    if wishes:
        return Decision(texts.calling(len(wishes)), wishes)
    if wanted:
        names = sorted({wish.tool for wish in wanted})
        return Decision(texts.not_offered(names) + texts.FOOTER)
    if _GREETING.fullmatch(text):
        return Decision(texts.INTRODUCTION)
    return Decision(f"{texts.NOT_UNDERSTOOD}\n\n{texts.REAL_MODEL}")


def _results(messages: Sequence[Message]) -> list[str]:
    """One description for each tool result, in order."""
    calls = {call.id: call for message in messages for call in message.tool_calls}
    described = []
    for message in messages:
        call = calls.get(message.tool_call_id) if message.role == "tool" else None
        if call:
            described.append(result_text.describe(call.name, call.arguments, message.content))
    return described
