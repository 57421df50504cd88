"""The answers of an operation by status: its own, and those that admission and parsing can give. Pure."""

from typing import Any

from sessions_app.surfaces.base.openapi.fields import answer_schema
from sessions_app.surfaces.base.openapi.operations import JSON, Answer, Description, Operation
from sessions_app.surfaces.base.openapi.schemas import Schema, ref

_MEANINGS = {
    400: "The request is invalid; the error names the fields.",
    401: "The credential is missing or invalid.",
    403: "Not allowed: a read-only credential, a missing CSRF token, or an operation for other users.",
    402: "A budget or a cap of cost is used up.",
    404: "The object does not exist, or belongs to another user; the two are not distinguished.",
    405: "The route does not support this method.",
    406: "No answer of an accepted media type.",
    408: "The body was not received in time.",
    409: "The request conflicts with the present state; see the error's code.",
    410: "The object has expired.",
    413: "The body is too large.",
    415: "The media type of the body is not supported.",
    422: "The idempotency key was used with other content.",
    429: "Too many requests, or too many queued messages.",
    500: "An unexpected error; it is logged under the request id.",
    501: "This part of the protocol is not implemented.",
    502: "The model provider failed.",
    503: "The database is not reachable, or an operator stopped the agents.",
    504: "The answer is not ready in time; the run continues.",
}
_SAFE = ("get", "head")
_RETRIED = (429, 503)


def responses(one: Description, operation: Operation, method: str, *, has_path: bool) -> dict[str, Any]:
    """Return the responses of an operation by status. has_path: its path has parameters."""
    success = Answer("Success.", one.wrap(operation.result))
    answers = {operation.status: success, **operation.answers}
    own = {status: _response(status, answer) for status, answer in answers.items()}
    errors = {
        status: {"$ref": f"#/components/responses/{one.error}{status}"}
        for status in _errors(one, operation, method, has_path=has_path)
    }
    return {str(status): response for status, response in sorted({**errors, **own}.items())}


def shared_responses(one: Description) -> dict[str, Any]:
    """Return every error of a surface, as components to refer to."""
    return {
        f"{one.error}{status}": _response(status, Answer(meaning, ref(one.error)))
        for status, meaning in _MEANINGS.items()
    }


def _errors(one: Description, operation: Operation, method: str, *, has_path: bool) -> set[int]:
    found = {429, 500, 503, *operation.errors}
    if (operation.access or one.access) != "open":
        found.add(401)
        if method not in _SAFE:
            found.add(403)
    if has_path:
        found.add(404)
    if operation.body is not None:
        found |= {400, 413, 415}
    if operation.query is not None or operation.parameters:
        found.add(400)
    if operation.body is not None or operation.query is not None:
        found.update(one.invalid)
    return found


def _response(status: int, answer: Answer) -> dict[str, Any]:
    headers: dict[str, Schema] = {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}, **answer.headers}
    if status in _RETRIED:
        headers["Retry-After"] = {"$ref": "#/components/headers/RetryAfter"}
    response: dict[str, Any] = {"description": answer.description, "headers": headers}
    if answer.schema is not None:
        response["content"] = {
            answer.media_type: {"schema": answer_schema(answer.schema)},
            **{name: {} for name in answer.also_as},
        }
    elif answer.media_type != JSON:
        response["content"] = {answer.media_type: {}}
    return response
