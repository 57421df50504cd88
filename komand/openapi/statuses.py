"""Which answers an operation can give: its own, and those that follow from how requests are let in. Pure."""

from typing import Any

from sessions_app.surfaces.base.openapi.operations import JSON, Answer, Description, Operation
from sessions_app.surfaces.base.openapi.schemas import Schema, ref

_WORDS = {
    400: "The request is not as described; the error says what to mend.",
    401: "No valid credential.",
    403: "Not allowed: the credential may only read, the page's token is missing, or it takes somebody else.",
    404: "There is no such thing, or it is another's: nobody can tell which.",
    405: "This method is not answered here.",
    406: "No answer of this kind.",
    408: "The body did not come in time.",
    409: "It does not fit the present state; the error's code says why.",
    410: "The time for it is over.",
    413: "The body is too large.",
    415: "The body has another media type.",
    422: "The idempotency key was used with other content.",
    429: "Too many requests, or too many of them wait.",
    500: "Something went wrong here; the log has it under the request id.",
    501: "This part of the protocol is not served here.",
    502: "The model provider failed.",
    503: "Not just now: the database is away, or an operator has stopped the agents.",
    504: "The answer did not come in time; the work goes on.",
}
_SAFE = ("get", "head")
_COMES_AGAIN = (429, 503)


def responses(one: Description, operation: Operation, method: str, *, has_path: bool) -> dict[str, Any]:
    """By status, in order."""
    given = {operation.status: Answer("As asked.", None if operation.gives is None else one.wrap(operation.gives))}
    own = {status: _response(status, answer) for status, answer in {**given, **operation.answers}.items()}
    errors = {
        status: {"$ref": f"#/components/responses/{one.error}{status}"}
        for status in _errors(operation, method, has_path=has_path)
    }
    return {str(status): said for status, said in sorted({**errors, **own}.items())}


def shared_responses(one: Description) -> dict[str, Any]:
    """Every error of a surface, to be referred to."""
    return {
        f"{one.error}{status}": _response(status, Answer(words, ref(one.error))) for status, words in _WORDS.items()
    }


def _errors(operation: Operation, method: str, *, has_path: bool) -> set[int]:
    found = {429, 500, 503, *operation.errors}
    if operation.access != "open":
        found.add(401)
        if method not in _SAFE:
            found.add(403)
    if has_path:
        found.add(404)
    if operation.body is not None:
        found |= {400, 413, 415}
    if operation.query is not None or operation.parameters:
        found.add(400)
    return found


def _response(status: int, answer: Answer) -> dict[str, Any]:
    headers: dict[str, Schema] = {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}, **answer.headers}
    if status in _COMES_AGAIN:
        headers["Retry-After"] = {"$ref": "#/components/headers/RetryAfter"}
    said: dict[str, Any] = {"description": answer.description, "headers": headers}
    if answer.schema is not None:
        said["content"] = {answer.media_type: {"schema": answer.schema}}
    elif answer.media_type != JSON:
        said["content"] = {answer.media_type: {}}
    return said
