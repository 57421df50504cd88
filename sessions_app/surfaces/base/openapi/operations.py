"""What a surface says of each of its routes, where the code does not say it already. Pure data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sessions_app.surfaces.base.openapi.schemas import Schema

JSON = "application/json"
EVENTS = "text/event-stream"

# Who may ask: nobody has to prove anything; any credential; a token or key, never a page's cookie; those or a ticket in
# the address, where the protocol's clients can put it nowhere else; a token or key, or the cookie of threads.
Access = Literal["open", "any", "bearer", "query", "thread"]


def as_it_is(schema: Schema) -> Schema:
    return schema


@dataclass(frozen=True)
class Answer:
    """One answer by its status. schema: None for an answer without a body."""

    description: str
    schema: Schema | None = None
    media_type: str = JSON
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
    "Makes repeating the request safe: the same key with the same content is the first request again.",
    {"type": "string", "maxLength": 200},
    where="header",
)


@dataclass(frozen=True)
class Operation:
    """One method of one route.

    gives: what the answer with `status` holds, in the surface's wrapping; None: nothing. body: a serializer class or a
    JSON Schema. partial: every field of the body may be left out. query: a serializer class. errors: statuses beside
    those that follow from the rest. answers: further ones that are no errors, or are shaped otherwise. waits: it
    streams, or waits long, so that machines do not try it out.
    """

    summary: str
    gives: Any = None
    status: int = 200
    body: Any = None
    partial: bool = False
    media_type: str = JSON
    query: Any = None
    parameters: Sequence[Parameter] = ()
    errors: Sequence[int] = ()
    answers: Mapping[int, Answer] = field(default_factory=dict)
    access: Access = "any"
    waits: bool = False
    description: str = ""


@dataclass(frozen=True)
class Description:
    """One surface. operations: by path as in the document, then by method. error: the name of its error's component;
    wrap: what surrounds every successful answer."""

    tag: str
    about: str
    error: str
    components: Mapping[str, Schema]
    operations: Mapping[str, Mapping[str, Operation]]
    wrap: Callable[[Any], Schema] = as_it_is
