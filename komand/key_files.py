"""Rotation of secrets with several keys: the new key comes first, older ones stay until they are dropped."""

import os
import secrets
from pathlib import Path

from audit_app.kernel.errors import Conflict
from komand.settings import env

# name on the command line: (file in <data>/secrets, variable that overrides it)
ROTATED = {"receipts": ("receipts.key", "KOMAND_RECEIPT_KEYS"), "vault": ("vault.key", "KOMAND_VAULT_KEYS")}


def rotate(which: str) -> int:
    """Put a new key before the stored ones and return the number of keys. Raises Conflict if a variable sets them."""
    path = _path(which)
    keys = [secrets.token_urlsafe(48), *_read(path)]
    _write(path, keys)
    return len(keys)


def drop_old(which: str) -> int:
    """Drop all keys but the newest and return the number dropped. Raises Conflict if a variable sets them."""
    path = _path(which)
    keys = _read(path)
    _write(path, keys[:1])
    return len(keys) - 1


def _path(which: str) -> Path:
    name, variable = ROTATED[which]
    if env.text(variable):
        raise Conflict(f"{variable} contains the keys. Add the new key there: in front, followed by a comma.")
    path = env.data_dir() / "secrets" / name
    if not path.exists():
        raise Conflict(f"{path} does not exist yet. Komand creates it at its first start.")
    return path


def _read(path: Path) -> list[str]:
    return [key.strip() for key in path.read_text().split(",") if key.strip()]


def _write(path: Path, keys: list[str]) -> None:
    """Replace the file atomically: without its keys an installation cannot decrypt its secrets."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(",".join(keys))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
