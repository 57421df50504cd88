"""The newest seal in a second place, `<data>/audit.head`, which shows a removed end of the log."""

import logging
import os
from pathlib import Path

from django.conf import settings

from audit_app.chain.hashes import Anchor, find_anchors
from audit_app.models import AuditCut, AuditSeal

logger = logging.getLogger(__name__)


def read() -> Anchor | None:
    """Return the stored anchor, or None. Raises OSError if the file cannot be read."""
    try:
        text = _path().read_text()
    except FileNotFoundError:
        return None
    return next(iter(find_anchors(text)), Anchor(0, 0, "", ""))


def write(seal: AuditSeal) -> None:
    """Replace the stored anchor by that of a committed seal, unless it is newer, or no part of the chain.

    Errors are logged: the log is sealed without the file.
    """
    path = _path()
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        stored = read()
        if stored and not _is_followed_by(stored, seal):
            return
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(f"{Anchor.of(seal)}\n")
        draft.replace(path)
    except OSError as error:
        logger.warning("the newest seal of the audit log cannot be written to %s: %s", path, error)


def _is_followed_by(stored: Anchor, seal: AuditSeal) -> bool:
    """Return whether the stored anchor is of an earlier seal of the same chain. Otherwise it is evidence: keep it."""
    if stored.seal >= seal.number:
        return False
    kept = AuditSeal.objects.filter(number=stored.seal).first()
    if kept is None:
        return AuditCut.objects.filter(seal__gte=stored.seal).exists()
    return (kept.last, kept.hash) == (stored.last, stored.hash)


def _path() -> Path:
    return Path(settings.DATA_DIR) / "audit.head"
