"""What a connection needs to know of a server, as plain data. Pure."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# One message of a server, and what may lie between two line ends.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_TOOLS = 500


@dataclass(frozen=True)
class ServerConfig:
    """How to reach a server. transport: stdio (command, arguments, environment, folder) | streamable_http | sse (url,
    headers). Values are final: references to credentials have been replaced, so never log it."""

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
    """What a server says of itself when a connection opens."""

    name: str
    version: str
    protocol: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "protocol": self.protocol}
