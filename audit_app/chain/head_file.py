"""The newest seal in a second place, `<data>/audit.head`, which shows a removed end of the log."""

import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings

from audit_app.chain.hashes import Anchor, find_anchors
from audit_app.models import AuditCut, AuditSeal

logger = logging.getLogger(__name__)

_FIRST_SECONDS = 60  # in which the first seal is written to the file


def read() -> Anchor | None:
    """Return the stored anchor, or None. Raises OSError if the file cannot be read."""
    try:
        text = _path().read_text()
    except FileNotFoundError:
        return None
    return next(iter(find_anchors(text)), Anchor(0, 0, "", ""))


def write(seal: AuditSeal) -> None:
    """Replace the stored anchor by that of a committed seal, unless it is newer, or no part of the chain.

    A file that is missing stays so: a new one would hide that the end of the log may be missing, too. Errors are
    logged: the log is sealed without the file.
    """
    try:
        stored = read()
        if _is_followed_by(stored, seal) if stored else not is_missing():
            replace(seal)
    except OSError as error:
        logger.warning("the newest seal of the audit log cannot be written to %s: %s", _path(), error)


def replace(seal: AuditSeal) -> None:
    """Replace the stored anchor by that of a committed seal, whatever it is. Raises OSError."""
    path = _path()
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(f"{Anchor.of(seal)}\n")
    draft.replace(path)


def is_missing() -> bool:
    """Return whether there is no file though there have been seals for longer than it takes to write the first one.

    Never with a bucket: hosts have folders of their own then, and a new host has no file yet.
    """
    if settings.KOMAND_S3_BUCKET:
        return False
    first = None if _path().exists() else AuditSeal.objects.order_by("number").first()
    if first is None:
        return False
    return first.number > 1 or first.sealed_at < datetime.now(UTC) - timedelta(seconds=_FIRST_SECONDS)


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
