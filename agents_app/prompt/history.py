"""Makes a history that every model server accepts: valid (`repair`) and short enough (`fit`). Pure."""

import json
import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace

from agents_app.types import Message
from tools_app.types import ToolCall

NO_RESULT = "[Unknown] There is no result of this tool call. It may or may not have happened."
SHORTENED = "\n[… shortened: the conversation is too long for the model]"
_BYTES_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 4
_SHORT_RESULT_BYTES = 800
_MERGED_ROLES = ("system", "user", "assistant")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_CHARACTERS = 64


def repair(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the history in a form that every model server accepts. Idempotent.

    The system messages are first, as one. Exactly one tool message per call follows its message, in the order of the
    calls: a missing result is replaced by NO_RESULT, a result without a call is dropped. Arguments are JSON objects,
    names have valid characters, ids are unique within a message. Empty messages are dropped; successive messages of
    the user or the assistant are merged.
    """
    system = [message for message in messages if message.role == "system" and message.content.strip()]
    return tuple(_merge([*system, *_pair(messages)]))


def fit(messages: Sequence[Message], *, budget_tokens: int) -> tuple[Message, ...]:
    """Return the system message and as many of the newest rounds as fit into the budget.

    A round is a user turn with everything up to the next one. The newest round is always kept; if it is too long, its
    tool results are shortened, oldest first. A token is counted as four bytes.
    """
    system = [message for message in messages if message.role == "system"]
    rounds = _rounds([message for message in messages if message.role != "system"])
    if not rounds:
        return tuple(system)
    left = budget_tokens - sum(map(_tokens, system))
    newest = _shorten(rounds.pop(), left)
    left -= sum(map(_tokens, newest))
    kept: list[list[Message]] = [newest]
    while rounds and (size := sum(map(_tokens, rounds[-1]))) <= left:
        left -= size
        kept.insert(0, rounds.pop())
    return (*system, *(message for kept_round in kept for message in kept_round))


def _pair(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the result of each call directly after the call."""
    paired: list[Message] = []
    for position, message in enumerate(messages):
        if message.role == "tool" or message.role == "system":
            continue
        calls = message.tool_calls if message.role == "assistant" else ()
        if not calls:
            if message.content.strip():
                paired.append(replace(message, tool_calls=(), tool_call_id=""))
            continue
        results = _results_after(messages, position)
        fixed = _fixed_calls(calls)
        paired.append(replace(message, tool_calls=fixed, tool_call_id=""))
        for original, call in zip(calls, fixed, strict=True):
            given = results[original.id]
            paired.append(Message("tool", given.popleft() if given else NO_RESULT, tool_call_id=call.id))
    return paired


def _results_after(messages: Sequence[Message], position: int) -> defaultdict[str, deque[str]]:
    """Return results by call id, in order, up to the next message with tool calls, which may reuse ids."""
    results: defaultdict[str, deque[str]] = defaultdict(deque)
    for message in messages[position + 1 :]:
        if message.role == "assistant" and message.tool_calls:
            break
        if message.role == "tool":
            results[message.tool_call_id].append(message.content)
    return results


def _fixed_calls(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    taken = {call.id for call in calls}
    seen: set[str] = set()
    fixed = []
    for number, call in enumerate(calls):
        call_id = call.id
        if not call_id or call_id in seen:
            call_id = _free_id(number, taken)
            taken.add(call_id)
        seen.add(call_id)
        name = _NOT_IN_A_NAME.sub("_", call.name)[:_MAX_NAME_CHARACTERS] or "unnamed"
        fixed.append(ToolCall(call_id, name, _fixed_arguments(call.arguments)))
    return tuple(fixed)


def _free_id(number: int, taken: set[str]) -> str:
    call_id = f"call_{number}"
    while call_id in taken:
        call_id += "x"
    return call_id


def _fixed_arguments(arguments: str) -> str:
    try:
        is_object = isinstance(json.loads(arguments, parse_constant=_refuse_constant), dict)
    except (ValueError, RecursionError):
        is_object = False
    return arguments if is_object else "{}"


def _refuse_constant(name: str) -> None:
    """Reject NaN and Infinity, which Python's parser accepts but JSON does not allow."""
    raise ValueError(name)


def _merge(messages: Sequence[Message]) -> list[Message]:
    """Merge successive messages of one role, except tool results."""
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last and last.role == message.role and message.role in _MERGED_ROLES and not last.tool_calls:
            content = "\n\n".join(part for part in (last.content, message.content) if part)
            merged[-1] = replace(message, content=content)
        else:
            merged.append(message)
    return merged


def _rounds(messages: Sequence[Message]) -> list[list[Message]]:
    rounds: list[list[Message]] = []
    for message in messages:
        if message.role == "user" or not rounds:
            rounds.append([])
        rounds[-1].append(message)
    return rounds


def _shorten(messages: list[Message], budget: int) -> list[Message]:
    """Return the messages with tool results shortened, oldest first, until they fit into the budget."""
    short = list(messages)
    excess = sum(map(_tokens, short)) - budget
    for at, message in enumerate(short):
        if excess <= 0:
            break
        if message.role == "tool" and _bytes(message.content) > _SHORT_RESULT_BYTES + _bytes(SHORTENED):
            start = message.content.encode(errors="replace")[:_SHORT_RESULT_BYTES].decode(errors="ignore")
            short[at] = replace(message, content=start + SHORTENED)
            excess -= _tokens(message) - _tokens(short[at])
    return short


def _tokens(message: Message) -> int:
    """Return an estimate that needs no tokenizer."""
    size = _bytes(message.content) + sum(_bytes(call.name) + _bytes(call.arguments) for call in message.tool_calls)
    return _TOKENS_PER_MESSAGE + size // _BYTES_PER_TOKEN


def _bytes(text: str) -> int:
    return len(text.encode(errors="replace"))
