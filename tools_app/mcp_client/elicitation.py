"""Requests of servers for input (elicitation) as questions to a person, and the person's reply as responses. Pure.

Takes and returns the protocol's objects as plain JSON.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import shorten
from tools_app.mcp_client import form_fields
from tools_app.mcp_client.form_fields import Field, Misfit
from tools_app.types import ToolError
from tools_app.types.questions import DECLINE, Option, Question, plain_options

Request = Mapping[str, Any]

MOST_REQUESTS, MOST_QUESTIONS = 4, 8  # of one round
MOST_REQUEST_BYTES = 64 * 1024
_ACCEPT, _OPENED = "Accept", "I have opened it"
_LONGEST_MESSAGE, _LONGEST_URL = 1_000, 800
_CANCEL = {"action": "cancel"}


class Refused(ToolError):
    """A server asks for something that no person here can be asked. The message is for the model."""


def questions_of(server: str, requests: Mapping[str, Request], problem: str = "") -> tuple[Question, ...]:
    """Return the questions to show for the requests of one round. Raises Refused.

    problem: why the last reply did not fit.
    """
    if len(json.dumps(requests)) > MOST_REQUEST_BYTES:
        raise Refused(f"it sent questions of more than {MOST_REQUEST_BYTES // 1024} KB")
    if len(requests) > MOST_REQUESTS:
        raise Refused(f"it sent {len(requests)} requests at once; {MOST_REQUESTS} are allowed")
    asked = [question for request in requests.values() for question in _questions_of(server, request)]
    if not 1 <= len(asked) <= MOST_QUESTIONS:
        raise Refused(f"it asked {len(asked)} questions at once; 1 to {MOST_QUESTIONS} are allowed")
    if problem:
        asked[0] = Question(**{**vars(asked[0]), "text": f"{problem}\n\n{asked[0].text}"})
    return tuple(asked)


def responses_of(requests: Mapping[str, Request], reply: str | None) -> dict[str, dict[str, Any]]:
    """Return the response to each request. reply: None to cancel. Raises Misfit if the reply answers something else."""
    if reply is None:
        return {key: dict(_CANCEL) for key in requests}
    text = reply.strip()
    if _declines(text):
        return {key: {"action": "decline"} for key in requests}
    counts = {key: max(len(_fields_of(request)), 1) for key, request in requests.items()}
    lines = [text] if sum(counts.values()) == 1 else [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != sum(counts.values()):
        raise Misfit(f"Please answer with {sum(counts.values())} lines, one for each question.")
    responses = {}
    for key, request in requests.items():
        own, lines = lines[: counts[key]], lines[counts[key] :]
        responses[key] = _response_of(request, own)
    return responses


def _response_of(request: Request, lines: Sequence[str]) -> dict[str, Any]:
    fields = _fields_of(request)
    if any(map(_declines, lines)):
        return {"action": "decline"}
    if not fields:
        accepted = _OPENED if _is_url(request) else _ACCEPT
        if lines[0].casefold() not in (accepted.casefold(), "accept", "yes", "1", "1."):
            if lines[0] in ("2", "2."):
                return {"action": "decline"}
            raise Misfit(f"Please answer “{accepted}” or “{DECLINE}”.")
        return {"action": "accept"} if _is_url(request) else {"action": "accept", "content": {}}
    content = {}
    for field, line in zip(fields, lines, strict=True):
        if field is fields[0] and field.is_choice and _is_last_number(field, line):
            return {"action": "decline"}
        value = form_fields.value_of(field, line)
        if value is not None:
            content[field.name] = value
    return {"action": "accept", "content": content}


def _is_last_number(field: Field, line: str) -> bool:
    """Return whether the line is the number of the option to decline, which is shown behind the field's own."""
    return line.rstrip(".)") == str(len(field.options) + 1)


def _declines(text: str) -> bool:
    return text.strip("/ ").casefold() == DECLINE.casefold()


def _questions_of(server: str, request: Request) -> list[Question]:
    params = _params_of(request)
    message = _quoted(str(params.get("message", "")), _LONGEST_MESSAGE)
    if _is_url(request):
        return [_link(server, message, str(params.get("url", "")))]
    head = (
        f"The MCP server {server} asks, in its own words, which come from outside: {message}\n\n"
        f"The answer goes to {server}. Never give it a password or a key. “{DECLINE}” refuses."
    )
    fields = _fields_of(request)
    if not fields:
        return [Question(head, plain_options((_ACCEPT, DECLINE)), allows_text=False)]
    return [_question_of(field, "" if number else f"{head}\n\n") for number, field in enumerate(fields)]


def _question_of(field: Field, head: str) -> Question:
    options = tuple(Option(value, label) for value, label in field.options)
    decline = plain_options((DECLINE,)) if options and head else ()
    text = f"{head}{form_fields.text_of(field)}"
    hint = "" if field.default is None else form_fields.shown(field, field.default)
    return Question(text, (*options, *decline), not options, field.is_list, placeholder=hint[:100])


def _link(server: str, message: str, url: str) -> Question:
    parts = _web_address(url)
    text = (
        f"The MCP server {server} asks you to open a page of {parts}. In its own words, which come from outside: "
        f"{message}\n\n{url}\n\nOpen it only if you expect this and know {parts}."
    )
    return Question(text, plain_options((_OPENED, DECLINE)), allows_text=False, variant="warning")


def _web_address(url: str) -> str:
    """Return the host of a link that a person may be shown. Raises Refused."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        parts.port  # noqa: B018 - raises for a port that is none
    except ValueError:
        host = ""
    is_plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= _LONGEST_URL
    if not host or not is_plain or parts.scheme not in ("http", "https") or parts.username is not None:
        raise Refused("it asked a person to open something that is not a plain web address")
    return host


def _quoted(text: str, length: int) -> str:
    """Return a server's text as one that cannot look like a link with another name, or like text of Komand."""
    line = " ".join(visible(text).split()).replace("](", "] (").replace("“", '"').replace("”", '"')
    return f"“{shorten(line, length)}”"


def _fields_of(request: Request) -> tuple[Field, ...]:
    """Return the fields of a form; none of a link. Raises Refused."""
    if _is_url(request):
        return ()
    try:
        return form_fields.read(_params_of(request).get("requestedSchema"))
    except form_fields.UnusableForm as problem:
        raise Refused(f"it asked with a form that cannot be shown: {problem}") from None


def _params_of(request: Request) -> Mapping[str, Any]:
    if request.get("method") != "elicitation/create":
        raise Refused(f"it asked for {shorten(str(request.get('method')), 60)!r}, which is not offered to servers")
    params = request.get("params")
    return params if isinstance(params, dict) else {}


def _is_url(request: Request) -> bool:
    return _params_of(request).get("mode") == "url"
