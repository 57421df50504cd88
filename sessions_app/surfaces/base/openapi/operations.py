"""The declaration of operations on views and consumers: requests are checked by it, the document is built from it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal, TypeVar, cast

from sessions_app.surfaces.base.openapi.fields import answer_schema
from sessions_app.surfaces.base.openapi.schemas import Schema

JSON = "application/json"
EVENTS = "text/event-stream"

# The credentials that an operation accepts:
# open: none is needed; any: a token, an API key or the cookie of the pages; bearer: a token or an API key;
# query: as bearer, also as a query parameter, or a ticket; thread: as bearer, or the cookie of the thread protocol.
# visitor: a token of a visitor of the web chat.
Access = Literal["open", "any", "bearer", "query", "thread", "visitor"]


Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True)
class Answer:
    """An answer of one status.

    schema: as for `answer_schema`; None if it has no body.
    also_as: media types that the client can choose.
    """

    description: str
    schema: Any = None
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

STOP_ON_DISCONNECT = Parameter(
    "X-Komand-Stop-On-Disconnect",
    "`true`: the run is stopped if the client disconnects before the answer is complete. `false`: it goes on.",
    {"type": "string", "enum": ["true", "false"]},
    where="header",
)


@dataclass(frozen=True)
class Operation:
    """One method of a view or a consumer, whose handler it decorates: the one of its name, or a consumer's `respond`.

    result: the answer with `status`, before the surface's `wrap`, as for `answer_schema`; None if it has no body.
    body: a serializer class, by which `PlainView.body` checks the request, or a JSON Schema.
    partial: no field of the body is required.
    query: a serializer class, by which `PlainView.query` checks the request.
    errors: statuses beyond those that `komand.openapi.statuses` derives.
    answers: further answers, by status.
    access: None for that of the surface.
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
    access: Access | None = None
    streams: bool = False
    description: str = ""

    def __call__(self, handler: Handler) -> Handler:
        """Declare a handler, which may be that of a base class: `get = Operation("Read a value")(Base.get)`.

        While it runs, the operation is the attribute `operation` of its view.
        """

        @wraps(handler)
        def declared(view: Any, *args: Any, **kwargs: Any) -> Any:
            view.operation = self
            return handler(view, *args, **kwargs)

        declared.__dict__["operation"] = self
        return cast(Handler, declared)


def operation_of(view: Any, method: str) -> Operation | None:
    """Return the declared operation of a method, in lower case, of a view or a consumer."""
    handler = getattr(view, method, None) or getattr(view, "respond", None)
    return getattr(handler, "operation", None)


@dataclass(frozen=True)
class Description:
    """One surface in the document.

    error: the component name of its errors.
    access: the credentials of operations that name none.
    invalid: further statuses of operations with a body or a query.
    wrap: returns the schema of a successful answer from the result of its operation.
    operations: those of routes that belong to no surface, by method and path: `GET /health/ready`.
    """

    tag: str
    about: str
    error: str
    components: Mapping[str, Schema]
    access: Access = "any"
    invalid: Sequence[int] = ()
    wrap: Callable[[Any], Schema | None] = answer_schema
    operations: Mapping[str, Operation] = field(default_factory=dict)
