"""Makes a history that every model server accepts: valid (`repair`) and short enough (`fit`). Pure."""

import json
import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from agents_app.prompt import tokens
from agents_app.types import Message
from tools_app.types import ToolCall

NO_RESULT = "[Unknown] There is no result of this tool call. It may or may not have happened."
_NO_RESULT = Message("tool", NO_RESULT)
SHORTENED = "\n[… shortened: the conversation is too long for the model]"
LEFT_OUT = "[Earlier messages are left out: the conversation is too long for the model.]"
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
    return merge(pair(messages))


def pair(messages: Sequence[Message]) -> list[Message]:
    """Do what `repair` does, except for merging: each message stays apart from its neighbours."""
    system = [message for message in messages if message.role == "system" and message.content.strip()]
    return [*system, *_pair(messages)]


def fit(messages: Sequence[Message], *, budget_tokens: int, family: str = "general") -> tuple[Message, ...]:
    """Return the system message, the summary, pinned messages, and as many of the newest rounds as fit the budget.

    messages: as from `pair`. A round is what the user wrote at one time with everything up to the next one. The newest
    round is always kept; if it is too long, its tool results are shortened, oldest first. Pinned messages of the other
    rounds are kept in full, without their tool calls. Tokens are estimated for the family of the model.
    """
    size = partial(tokens.count_message, family=family)
    head = [message for message in messages if message.role == "system" or message.is_summary]
    rounds = _rounds([message for message in messages if message.role != "system" and not message.is_summary])
    if not rounds:
        return tuple(head)
    left = budget_tokens - sum(map(size, head))
    left -= sum(size(message) for each in rounds[:-1] for message in _pinned(each))
    kept = [_shorten(rounds.pop(), left, family)]
    left -= sum(map(size, kept[0]))
    while rounds and (more := sum(map(size, rounds[-1])) - sum(map(size, _pinned(rounds[-1])))) <= left:
        left -= more
        kept.insert(0, rounds.pop())
    body = [message for each in (*map(_pinned, rounds), *kept) for message in each]
    if rounds and body[0].role != "user" and not any(message.is_summary for message in head):
        body.insert(0, Message("user", LEFT_OUT))  # some servers demand that the user begins
    return (*head, *body)


def _pinned(messages: Sequence[Message]) -> list[Message]:
    """Return the pinned messages of a round without their calls, whose results are not kept."""
    return [replace(message, tool_calls=()) for message in messages if message.is_pinned and message.content.strip()]


def _pair(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the result of each call directly after the call."""
    paired: list[Message] = []
    for position, message in enumerate(messages):
        if message.role == "tool" or message.role == "system":
            continue
        calls = message.tool_calls if message.role == "assistant" else ()
        if not calls:
            if message.content.strip() or message.parts:
                paired.append(replace(message, tool_calls=(), tool_call_id=""))
            continue
        results = _results_after(messages, position)
        fixed = _fixed_calls(calls)
        paired.append(replace(message, tool_calls=fixed, tool_call_id=""))
        for original, call in zip(calls, fixed, strict=True):
            given = results[original.id]
            result = given.popleft() if given else _NO_RESULT
            paired.append(
                Message("tool", result.content, tool_call_id=call.id, parts=result.parts, ordinal=message.ordinal)
            )
    return paired


def _results_after(messages: Sequence[Message], position: int) -> defaultdict[str, deque[Message]]:
    """Return results by call id, in order, up to the next message with tool calls, which may reuse ids."""
    results: defaultdict[str, deque[Message]] = defaultdict(deque)
    for message in messages[position + 1 :]:
        if message.role == "assistant" and message.tool_calls:
            break
        if message.role == "tool":
            results[message.tool_call_id].append(message)
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


def merge(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Merge successive messages of one role, except tool results."""
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last and last.role == message.role and message.role in _MERGED_ROLES and not last.tool_calls:
            content = "\n\n".join(part for part in (last.content, message.content) if part)
            merged[-1] = replace(message, content=content, parts=(*last.parts, *message.parts))
        else:
            merged.append(message)
    return tuple(merged)


def _rounds(messages: Sequence[Message]) -> list[list[Message]]:
    rounds: list[list[Message]] = []
    for message in messages:
        if not rounds or (message.role == "user" and not _continues(rounds[-1][-1], message)):
            rounds.append([])
        rounds[-1].append(message)
    return rounds


def _continues(last: Message, message: Message) -> bool:
    """Return whether the user wrote both at one time. A message of another run follows one that was never answered."""
    return last.role == "user" and last.ordinal == message.ordinal


def _shorten(messages: list[Message], budget: int, family: str) -> list[Message]:
    """Return the messages with tool results shortened, oldest first, until they fit into the budget."""
    short = list(messages)
    excess = tokens.count_messages(short, family) - budget
    for at, message in enumerate(short):
        if excess <= 0:
            break
        if message.role == "tool" and _bytes(message.content) > _SHORT_RESULT_BYTES + _bytes(SHORTENED):
            start = message.content.encode(errors="replace")[:_SHORT_RESULT_BYTES].decode(errors="ignore")
            short[at] = replace(message, content=start + SHORTENED)
            excess -= tokens.count_message(message, family) - tokens.count_message(short[at], family)
    return short


def _bytes(text: str) -> int:
    return len(text.encode(errors="replace"))
