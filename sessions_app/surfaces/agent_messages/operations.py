"""Parts of several operations of this surface."""

from typing import Any

from sessions_app.surfaces.base.openapi.operations import IDEMPOTENCY_KEY, Parameter
from sessions_app.surfaces.base.openapi.schemas import TEXT, one_of, record, ref


def query_value(name: str, description: str, *values: str) -> Parameter:
    """Return a query parameter: a text, or one of the values."""
    return Parameter(name, description, one_of(values) if values else TEXT)


def limit(description: str, **most: int) -> Parameter:
    return Parameter("limit", description, {"type": "integer", "minimum": 1, **most})


def _time(name: str, relation: str) -> Parameter:
    about = f"Only messages {relation} this time, in milliseconds since 1970."
    return Parameter(name, about, {"type": "number", "minimum": 0})


BOOLEANS = ("true", "false")
SINCE, BEFORE = _time("since", "after"), _time("before", "before")
RUN, START = ref("AgentRun"), ref("AgentRunStart")
STARTED = record({"run_id": TEXT, "workflow_id": TEXT})
STARTS: dict[str, Any] = {"parameters": [IDEMPOTENCY_KEY], "errors": [404, 409, 422, 501]}
LIVE: dict[str, Any] = {"access": "query", "streams": True}
