"""The decision of the demo model: a pure function of the messages and the offered tools."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents_app.prompt.tool_output_markers import split_memories, unmark, without_context
from agents_app.providers.kinds.demo import delegation, texts
from agents_app.providers.kinds.demo.intents import Intent, find_intents, supported
from agents_app.types import Message
from agents_app.types.child_runs import WAIT_TOOL
from audit_app.kernel.shorten import one_line
from tools_app.profiles import FIND_TOOLS
from tools_app.types import ToolCall, ToolSpec, without_receipt

_FILES = "\n\n[Attached "  # begins the description of the files of a message
_MAX_QUOTED = 600
_COMMAND = re.compile(r"\s*/demo\b\s*(\w*)\s*", re.IGNORECASE)
_GREETING = re.compile(
    r"\s*(?:hi|hello|hey|help|start|good\s+(?:morning|day|evening)|what\s+can\s+you\s+(?:do|show(?:\s+me)?)|who\s+are\s+you"
    r"|(?:please\s+)?show\s+me(?:\s+what\s+you\s+can\s+do)?|(?:show\s+me\s+)?(?:an?\s+|the\s+)?(?:demo|tour))\b[\s\w]{0,20}[.!?]*\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Decision:
    """Stream `text`; then fail if `fails`, else call the tools of `intents`, if any."""

    text: str
    intents: tuple[Intent, ...] = ()
    fails: bool = False


def decide(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Decision:
    """Return the next response, with the footer if no earlier one has it.

    messages: a history that ends with a user turn or with tool results.
    """
    decision = _decide(messages, tools)
    if any(message.role == "assistant" and texts.FOOTER.strip() in message.content for message in messages):
        return replace(decision, text=decision.text.removesuffix(texts.FOOTER))
    return decision


def _decide(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Decision:
    last_user = delegation.last_written(messages)
    if last_user is None:
        return Decision(texts.INTRODUCTION)
    if team := delegation.launched(messages[last_user + 1 :]):
        return _decide_for_team(team, messages[last_user + 1 :], tools)
    _, content = split_memories(messages[last_user].content)
    written, _, _ = without_context(content).partition(_FILES)  # what the files contain asks for nothing
    calls = {call.id: call for message in messages[last_user + 1 :] for call in message.tool_calls}
    made = {call.name for call in calls.values()}
    if FIND_TOOLS in made:
        found = tuple(intent for intent in supported(find_intents(written), tools) if intent.tool not in made)
        if found:
            return Decision(texts.CALLING, found)
    if results := _results(messages[last_user + 1 :], calls):
        return Decision("\n".join([texts.FOUND, "", *results]) + texts.FOOTER)
    return _first_decision(written, () if made else tools)


def _decide_for_team(team: Mapping[str, str], messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Decision:
    """Return the wait for workstreams without a result, else the report about all. team: their names by id."""
    is_waiting = not team.keys() <= delegation.reports(messages).keys()
    if is_waiting and (wait := supported([Intent(WAIT_TOOL, {})], tools)):
        return Decision("", wait)
    return Decision("\n".join([texts.TEAM_FOUND, "", *delegation.summary(team, messages)]) + texts.FOOTER)


def _results(messages: Sequence[Message], calls: Mapping[str, ToolCall]) -> list[str]:
    return [
        describe(call.name, call.arguments, message.content)
        for message in messages
        if message.role == "tool" and (call := calls.get(message.tool_call_id)) and call.name != FIND_TOOLS
    ]


def _first_decision(text: str, tools: Sequence[ToolSpec]) -> Decision:
    # Messages without an answer, such as one whose run failed, come merged with the next one as paragraphs.
    newest = text.rsplit("\n\n", 1)[-1]
    command = _COMMAND.fullmatch(newest)
    if command and command[1].lower() == "error":
        return Decision(texts.BEFORE_ERROR, fails=True)
    if command:
        return Decision(texts.COMMANDS.get(command[1].lower(), texts.INTRODUCTION))
    decision = _decide_intents(find_intents(text), tools)
    return decision or Decision(texts.INTRODUCTION if _GREETING.fullmatch(newest) else texts.NOT_UNDERSTOOD)


def _decide_intents(intents: Sequence[Intent], tools: Sequence[ToolSpec]) -> Decision | None:
    """Return the decision for a message with these intents, None without any."""
    if team := supported(delegation.launches(intents), tools):
        return Decision(texts.DELEGATING, team)
    calls = supported(intents, tools)
    missing = sorted({intent.tool for intent in intents if intent not in calls})
    if missing:
        calls += supported([Intent(FIND_TOOLS, {"query": missing[0]})], tools)
    if calls:
        return Decision(texts.CALLING, calls)
    if missing:
        return Decision(texts.NOT_OFFERED.format(" and ".join(f"`{tool}`" for tool in missing)) + texts.FOOTER)
    return None


def describe(tool: str, arguments: str, content: str) -> str:
    """Return a list item.

    arguments: raw JSON of the call.
    content: JSON of the result, or `[Status] error`.
    """
    content = without_receipt(unmark(content))
    sent, found = _value(arguments), _value(content)
    sent = sent if isinstance(sent, dict) else {}
    if content.startswith("[") and not isinstance(found, list):
        return f"- **{tool}** failed. {content}"
    match tool, found:
        case "calculator", {"result": result}:
            return f"- `{sent.get('expression', '?')}` is **{result}**."
        case "date_time", {"timezone": zone, "time": time, "weekday": weekday, "date": date}:
            return f"- In {str(zone).rpartition('/')[2].replace('_', ' ')} it is **{time}** on {weekday}, {date}."
        case "echo", {"text": text}:
            return f"- The echo returned:{_quoted(str(text))}"
        case "ask_user", {"answer": answer}:
            return f"- You answered **{answer}**."
        case "write_artifact", {"path": path, "bytes": size}:
            return f"- The file `{path}` is written, {size} bytes."
        case "web_fetch", dict():
            url = str(found.get("url") or sent.get("url") or "")
            title = str(found.get("title") or url).replace("[", "(").replace("]", ")")
            cited = "".join(f" [{source['cite']}]" for source in found.get("sources", ()) if "cite" in source)
            return f"- The page [{title}]({url}) starts with{cited}:{_quoted(str(found.get('text') or ''))}"
    text = content if isinstance(found, str) else json.dumps(found, indent=2, ensure_ascii=False)
    return f"- **{tool}** returned:\n\n```json\n{text[:_MAX_QUOTED]}\n```"


def _quoted(text: str) -> str:
    flat = one_line(text, _MAX_QUOTED)
    return f"\n\n  > {flat}\n" if flat else " nothing."


def _value(text: str) -> Any:
    """Return the JSON value, or the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text
