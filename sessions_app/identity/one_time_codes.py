"""One-time codes that people type: made, and read again however they are written."""

import secrets

_ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
_LENGTH = 8


def make() -> str:
    """Return a code of eight letters and digits, without those that look alike."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))


def read(text: str) -> str:
    """Return the code of a text: in capitals, without spaces and invisible characters."""
    return "".join(sign for sign in text.upper() if sign in _ALPHABET)
