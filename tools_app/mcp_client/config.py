"""Configuration of a connection, as plain data. Pure."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Limit of one message of a server, and of one line on its output.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_TOOLS = 500


@dataclass(frozen=True)
class ServerConfig:
    """Connection settings of a server.

    transport: stdio (command, arguments, environment, folder) | streamable_http | sse (url, headers).
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


@dataclass(frozen=True)
class Greeting:
    """Identification of a server, received in the handshake."""

    name: str
    version: str
    protocol: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "protocol": self.protocol}
