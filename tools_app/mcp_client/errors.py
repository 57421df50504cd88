"""Faults of MCP servers, with messages for models and operators. Pure."""

from tools_app.types import ToolError


class ServerFault(ToolError):
    """The server is at fault, not the call. The message continues "The MCP server NAME does not work: …"."""

    def as_tool_error(self, server: str) -> ToolError:
        """Return the error for the model, with the name of the server."""
        return ToolError(f"The MCP server {server} does not work: {self}.")


def reason_of(error: BaseException) -> str:
    """Return one line about the first real error in a group of exceptions."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split())[:300]
    return text or type(error).__name__
