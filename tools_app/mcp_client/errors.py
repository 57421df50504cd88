"""Faults of MCP servers, with messages for models and operators. Pure."""

from collections.abc import Callable

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


def reason_of(error: BaseException) -> str:
    """Return one line about the first real error in a group of exceptions."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split())[:300]
    return text or type(error).__name__
