"""Pictures in the results of tools, which models that see images get beside the text. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

MOST_PICTURES = 5  # of one result
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


@dataclass(frozen=True)
class NewPicture:
    """A picture that a tool has made or received. It becomes a file of the session."""

    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Picture:
    """A picture that is a file of the session.

    artifact_id, sha256: name the file and its content at that time: an agent may replace it.
    media_type: read from its bytes.
    """

    artifact_id: str
    sha256: str
    path: str
    media_type: str
    size_bytes: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Picture":
        return cls(**data)


def media_type_of(data: bytes) -> str:
    """Return the media type of a picture by its bytes; empty if it is none that models take."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for signature, media_type in _SIGNATURES if data.startswith(signature)), "")
