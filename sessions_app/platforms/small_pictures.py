"""Small pictures in settings, such as that of an agent, as data addresses. Pure."""

import base64
import binascii
import re

MOST_BYTES = 48_000
PROBLEM = f"must be a PNG or JPEG of at most {MOST_BYTES:,} bytes, as data:image/png;base64,…"
_BEGINNINGS = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
_ADDRESS = re.compile(r"data:(image/(?:png|jpeg));base64,([A-Za-z0-9+/]+={0,2})")


def read_picture(address: object) -> tuple[str, bytes] | None:
    """Return the media type and the bytes of a picture, None if it is none, too large, or of another format."""
    found = _ADDRESS.fullmatch(address) if isinstance(address, str) and len(address) <= 2 * MOST_BYTES else None
    if found is None:
        return None
    try:
        data = base64.b64decode(found[2], validate=True)
    except binascii.Error:
        return None
    is_fitting = len(data) <= MOST_BYTES and data.startswith(_BEGINNINGS[found[1]])
    return (found[1], data) if is_fitting else None


def address_of(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
