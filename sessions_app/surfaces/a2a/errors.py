"""Errors of the protocol, and their bodies in both bindings (sections 5.4, 9.5 and 11.6 of the specification)."""

from collections.abc import Mapping
from typing import Any

from audit_app.kernel.errors import InvalidInput, NotFound
from sessions_app.surfaces.base.http_errors import HttpError


class TaskNotFound(NotFound):
    """There is no such task."""

    code = "task_not_found"


class TaskNotCancelable(InvalidInput):
    """The task has ended already."""

    code = "task_not_cancelable"


class UnsupportedOperation(InvalidInput):
    """This is not supported."""

    code = "unsupported_operation"


class ContentTypeNotSupported(InvalidInput):
    """Content of this type is not supported."""

    code = "content_type_not_supported"


class VersionNotSupported(InvalidInput):
    """This version of the protocol is not supported."""

    code = "version_not_supported"


class MethodNotFound(NotFound):
    """There is no such method."""

    code = "method_not_found"


class InvalidRequest(InvalidInput):
    """The body is not a request of JSON-RPC 2.0."""

    code = "invalid_request"


# Number and reason by our code. The protocol's own reasons are those without a number of JSON-RPC.
_KNOWN: Mapping[str, tuple[int, str]] = {
    "task_not_found": (-32001, "TASK_NOT_FOUND"),
    "task_not_cancelable": (-32002, "TASK_NOT_CANCELABLE"),
    "unsupported_operation": (-32004, "UNSUPPORTED_OPERATION"),
    "content_type_not_supported": (-32005, "CONTENT_TYPE_NOT_SUPPORTED"),
    "unsupported_file_type": (-32005, "CONTENT_TYPE_NOT_SUPPORTED"),
    "version_not_supported": (-32009, "VERSION_NOT_SUPPORTED"),
    "invalid_request": (-32600, "INVALID_REQUEST"),
    "method_not_found": (-32601, "METHOD_NOT_FOUND"),
    "malformed_json": (-32700, "JSON_PARSE_ERROR"),
}
_NUMBERS = {400: -32602, 409: -32602, 410: -32602, 422: -32602, 500: -32603, 503: -32603}
_OTHER_NUMBER = -32000  # what HTTP says, such as 401
_OF_THE_STATE = (-32002, -32004, -32009)
_STATUSES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_INFO, _FIELDS = "type.googleapis.com/google.rpc.ErrorInfo", "type.googleapis.com/google.rpc.BadRequest"


def error_body(error: HttpError) -> dict[str, Any]:
    """Return the body of an error over HTTP: a `google.rpc.Status`."""
    number, _ = _known(error)
    status = "FAILED_PRECONDITION" if number in _OF_THE_STATE else _STATUSES.get(error.status, "INVALID_ARGUMENT")
    return {"error": {"code": error.status, "status": status, "message": error.message, "details": _details(error)}}


def rpc_error(error: HttpError) -> dict[str, Any]:
    """Return the error object of JSON-RPC."""
    return {"code": _known(error)[0], "message": error.message, "data": _details(error)}


def _known(error: HttpError) -> tuple[int, str]:
    number = _NUMBERS.get(error.status, _OTHER_NUMBER)
    return _KNOWN.get(error.code, (number, "INVALID_PARAMS" if number == -32602 else error.code.upper()))


def _details(error: HttpError) -> list[dict[str, Any]]:
    info = {"reason": _known(error)[1], "domain": "a2a-protocol.org", "metadata": {"code": error.code}}
    details: list[dict[str, Any]] = [{"@type": _INFO, **info}]
    if param := error.extra.get("param"):
        details.append({"@type": _FIELDS, "fieldViolations": [{"field": param, "description": error.message}]})
    return details
