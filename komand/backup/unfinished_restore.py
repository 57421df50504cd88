"""The record of a restore that has not ended: until it is repeated, nothing that was pending may be resumed."""

from pathlib import Path

LOADING = "loading"


def _path(data: Path) -> Path:
    return data / "restore.unfinished"


def read(data: Path) -> str:
    """Return LOADING, then the time of the backup that was loaded; empty if no restore is unfinished."""
    return _path(data).read_text() if _path(data).exists() else ""


def write(data: Path, state: str) -> None:
    draft = _path(data).with_suffix(".draft")
    draft.write_text(state)
    draft.replace(_path(data))


def remove(data: Path) -> None:
    _path(data).unlink()
