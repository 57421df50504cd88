"""Configuration of a connection, as plain data. Pure."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tools_app.mcp_client.errors import NeedsAuthorization

# Limit of one message of a server, and of one line on its output.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_TOOLS = 500


class Tokens(Protocol):
    """Access tokens of OAuth, as `bearer_tokens.BearerTokens` has them."""

    async def current(self) -> str: ...

    async def replacement(self, refused: str) -> str: ...

    async def refused(self, response: Any) -> NeedsAuthorization: ...


@dataclass(frozen=True)
class ServerConfig:
    """Connection settings of a server.

    transport: stdio (command, arguments, environment, folder) | streamable_http | sse (url, headers, tokens).
    tokens: None for a server that is not authorized by OAuth.
    References to credentials are resolved: never log it.
    """

    name: str
    transport: str
    command: str = ""
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict, repr=False)
    folder: Path = Path()
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    connect_seconds: float = 20.0
    tokens: Tokens | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Greeting:
    """Identification of a server, received in the handshake."""

    name: str
    version: str
    protocol: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "protocol": self.protocol}
