"""Faults of MCP servers, with messages for models and operators, and what keeps a call from completing. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tools_app.types import ToolError


class ServerFault(ToolError):
    """The server is at fault, not the call. The message continues "The MCP server NAME does not work: …".

    state: of the server's row from then on.
    """

    state = "failing"

    def as_tool_error(self, server: str) -> ToolError:
        """Return the error for the model, with the name of the server."""
        return ToolError(f"The MCP server {server} does not work: {self}.")


class NeedsAuthorization(ServerFault):
    """The server demands an authorization by OAuth that a person has to give. scope: the rights that are missing."""

    state = "needs_authorization"

    def __init__(self, scope: str = "") -> None:
        self.scope = scope[:500]
        rights = f" for more rights ({self.scope})" if self.scope else ""
        super().__init__(f"it needs authorization{rights}: an operator has to press Authorize on its page in the admin")


OnFault = Callable[[ServerFault], None]


class InputNeeded(Exception):
    """A server needs answers of a person before it completes a call.

    requests: the protocol's requests as plain JSON, by the server's key.
    state: to send back with the responses; None if the call is just made again.
    takes_responses: whether the next call carries responses.
    """

    def __init__(self, requests: dict[str, Any], state: str | None, *, takes_responses: bool = True) -> None:
        super().__init__("the server needs input")
        self.requests, self.state, self.takes_responses = requests, state, takes_responses


class CallStopped(Exception):
    """A call was ended because its server asked what it may not ask."""


@dataclass(frozen=True)
class Responses:
    """Responses to `InputNeeded`, for the next call. given: None if the server has asked nothing."""

    given: dict[str, Any] | None
    state: str | None


def reason_of(error: BaseException) -> str:
    """Return one line about the first real error in a group of exceptions."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split())[:300]
    return text or type(error).__name__
