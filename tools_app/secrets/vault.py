"""Seals secrets for the database and opens them (Fernet, with rotation). Never logs, caches or shows a plain value."""

import base64
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from audit_app.kernel.errors import AppError


class SealError(AppError):
    """A stored secret cannot be opened with this installation's vault keys. Enter it again."""

    code = "seal_broken"


def seal(text: str) -> str:
    """Return the text encrypted and authenticated with the newest key; ASCII, different each time."""
    return _box(settings.KOMAND_VAULT_KEYS).encrypt(text.encode()).decode()


def unseal(sealed: str) -> str:
    """Return the plain text, whichever key sealed it. Raises SealError for unknown keys and damaged seals."""
    try:
        return _box(settings.KOMAND_VAULT_KEYS).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise SealError from None


def is_newest(sealed: str) -> bool:
    """Return whether the newest key opens the seal."""
    newest = _texts(settings.KOMAND_VAULT_KEYS)[0]
    try:
        _box(newest).decrypt(sealed.encode())
    except InvalidToken:
        return False
    return True


@lru_cache(maxsize=4)
def _box(keys: str) -> MultiFernet:
    return MultiFernet([Fernet(_fernet_key(text)) for text in _texts(keys)])


def _texts(keys: str) -> list[str]:
    texts = [key.strip() for key in keys.split(",") if key.strip()]
    if not texts:
        raise SealError("No vault key is set: KOMAND_VAULT_KEYS is empty.")
    return texts


def _fernet_key(text: str) -> bytes:
    """Return a Fernet key derived from any long random text (HKDF-SHA256)."""
    derived = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=b"komand vault v1").derive(text.encode())
    return base64.urlsafe_b64encode(derived)
