"""How a server fails us, in words that a model and an operator can read. Pure."""

from tools_app.types import ToolError


class ServerFault(ToolError):
    """The server, not the call, is at fault. The message continues "The MCP server NAME …"; `told` names the server."""

    def told(self, server: str) -> ToolError:
        return ToolError(f"The MCP server {server} does not work: {self}.")


def reason_of(error: BaseException) -> str:
    """One line for whatever broke a connection: the first real error in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split())[:300]
    return text or type(error).__name__
