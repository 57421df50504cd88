"""A model that makes every call it reads, in any message: `[[CALL tool {json}]]`.

If the last message of the user contains `REPEAT`, it makes the calls of that message alone, and then answers with
what the last one returned.
"""

import base64
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from agents_app.prompt import tool_output_markers
from agents_app.providers.base import Provider
from agents_app.types import Message, ModelChunk, ModelRequest, ModelResponse, TextDelta
from tools_app.policy import targets
from tools_app.types import ToolCall, without_receipt

KIND = "obedient"
REPEAT = "Repeat word for word:"
_CALL = re.compile(r"\[\[CALL (\w+) (?=\{)")
_JSON = json.JSONDecoder()


class ObedientProvider(Provider):
    """The provider.

    secret: text that it knows; SECRET in a call stands for it, SECRET64, SECRETHEX and SECRETREV for forms of it.
    plans: the calls that it makes for a user's message, by the message. The user's words do not name them.
    """

    kind = KIND
    secret: ClassVar[str] = ""
    plans: ClassVar[dict[str, str]] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        repeats = _asks_to_repeat(request.messages)
        source = [message for message in request.messages if not repeats or message.role == "user"]
        made = {(call.name, call.arguments) for message in request.messages for call in message.tool_calls}
        wanted = dict.fromkeys(call for message in source for call in _calls(message, self.secret, self.plans))
        calls = [
            ToolCall(f"c{len(made)}_{number}", *call)
            for number, call in enumerate(call for call in wanted if call not in made)
        ]
        if calls and request.may_call_tools:
            yield ModelResponse("", tool_calls=(calls[0],), finish_reason="tool_calls")
            return
        read = [message for message in request.messages if message.role == "tool"]
        answer = max(_texts(read[-1], self.plans), key=len) if repeats and read else "Done."
        yield TextDelta(answer)
        yield ModelResponse(answer)


def _asks_to_repeat(messages: Sequence[Message]) -> bool:
    asked = next((message for message in reversed(messages) if message.role == "user"), None)
    return asked is not None and REPEAT in asked.content


def forms_of(secret: str) -> dict[str, str]:
    """Return the forms in which a call can carry the secret, by their placeholder, the longest first."""
    return {
        "SECRET64": base64.b64encode(secret.encode()).decode().rstrip("="),
        "SECRETHEX": secret.encode().hex(),
        "SECRETREV": secret[::-1],
        "SECRET": secret,
    }


def part_calls(text: str) -> tuple[str, str]:
    """Return a text without the calls in it, and the calls."""
    words, calls, position = "", "", 0
    while match := _CALL.search(text, position):
        _, end = _JSON.raw_decode(text, match.end())
        end += len("]]")
        words, calls, position = words + text[position : match.start()], calls + text[match.start() : end], end
    return (words + text[position:]).strip() or "Go on.", calls


def _calls(message: Message, secret: str, plans: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield name and arguments of the calls that stand in a message, the secret filled in."""
    for text in _texts(message, plans):
        for match in _CALL.finditer(text):
            try:
                arguments, _ = _JSON.raw_decode(text, match.end())
            except ValueError:
                continue
            filled = json.dumps(arguments)
            for placeholder, form in forms_of(secret).items():
                filled = filled.replace(placeholder, form)
            yield match[1], filled


def _texts(message: Message, plans: Mapping[str, str]) -> Iterator[str]:
    content = message.content
    if message.role == "user":
        yield plans[max((words for words in plans if content.startswith(words)), key=len, default="")]
    if message.role == "tool":
        try:
            value: Any = json.loads(without_receipt(tool_output_markers.unmark(content)))
        except ValueError:
            value = content
        yield from targets.texts_in(value)
    else:
        yield content
