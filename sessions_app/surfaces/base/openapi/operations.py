"""The description of a surface's operations, as far as the code does not contain it already. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sessions_app.surfaces.base.openapi.schemas import Schema

JSON = "application/json"
EVENTS = "text/event-stream"

# The credentials that an operation accepts:
# open: none is needed; any: a token, an API key or the cookie of the pages; bearer: a token or an API key;
# query: as bearer, also as a query parameter, or a ticket; thread: as bearer, or the cookie of the thread protocol.
# visitor: a token of a visitor of the web chat.
Access = Literal["open", "any", "bearer", "query", "thread", "visitor"]


@dataclass(frozen=True)
class Answer:
    """An answer of one status.

    schema: None if it has no body.
    also_as: media types that the client can choose.
    """

    description: str
    schema: Schema | None = None
    media_type: str = JSON
    also_as: Sequence[str] = ()
    headers: Mapping[str, Schema] = field(default_factory=dict)


@dataclass(frozen=True)
class Parameter:
    name: str
    description: str
    schema: Schema
    where: Literal["query", "header"] = "query"
    required: bool = False


IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "Makes the request idempotent: repeated with the same key and content, it returns the result of the first.",
    {"type": "string", "maxLength": 200},
    where="header",
)


@dataclass(frozen=True)
class Operation:
    """One method of one route.

    result: the schema of the answer with `status`, before the surface's `wrap`; None if that has no body.
    body: a serializer class or a JSON Schema.
    partial: no field of the body is required.
    query: a serializer class.
    errors: statuses beyond those that `komand.openapi.statuses` derives.
    answers: further answers, by status.
    streams: the operation streams or waits long; schemathesis skips it.
    """

    summary: str
    result: Any = None
    status: int = 200
    body: Any = None
    partial: bool = False
    media_type: str = JSON
    query: Any = None
    parameters: Sequence[Parameter] = ()
    errors: Sequence[int] = ()
    answers: Mapping[int, Answer] = field(default_factory=dict)
    access: Access = "any"
    streams: bool = False
    description: str = ""


@dataclass(frozen=True)
class Description:
    """One surface in the document.

    operations: by method and path, such as `GET /api/agents/{agent_id}`.
    error: the component name of its errors.
    wrap: returns the schema of a successful answer from that of its result.
    """

    tag: str
    about: str
    error: str
    components: Mapping[str, Schema]
    operations: Mapping[str, Operation]
    wrap: Callable[[Any], Schema] = lambda schema: schema
