"""The actor, the request, the session and the run of the current code, for logs, events, audit entries and tasks."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("request_id", default="")
actor: ContextVar[str] = ContextVar("actor", default="system")
session_id: ContextVar[str] = ContextVar("session_id", default="")
run_id: ContextVar[str] = ContextVar("run_id", default="")

_VARIABLES = {"request_id": request_id, "actor": actor, "session_id": session_id, "run_id": run_id}


@contextmanager
def bind(**values: str) -> Iterator[None]:
    """Set any of request_id, actor, session_id, run_id for the block. Actors: `user:7`, `agent:default`, `system`."""
    tokens = [(_VARIABLES[name], _VARIABLES[name].set(value)) for name, value in values.items()]
    try:
        yield
    finally:
        for variable, token in reversed(tokens):
            variable.reset(token)


def current() -> dict[str, str]:
    """Return the variables that are set, by name, for a log line."""
    return {name: value for name, variable in _VARIABLES.items() if (value := variable.get())}
