"""Detection of processes with another data folder: each one keeps a file in `<DATA_DIR>/hosts` that holds its beat.

A copied folder is detected as well: it lacks the files of later processes, and the beats in it fall behind. On
PostgreSQL alone: the processes of SQLite run on one host. Processes with a bucket put none, since they may have folders
of their own; they report those with a folder.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import UUID

from django.conf import settings

from audit_app.kernel.liveness.process_marks import ProcessView

logger = logging.getLogger(__name__)

REMEDY = "mount one folder on all hosts as KOMAND_DATA_DIR, or set the same KOMAND_S3_BUCKET on all"

WRITTEN_EACH = 30  # beats
# Beats that a file may be behind: a file system of the network shows what another host has written a minute later.
_MOST_BEHIND = 120

_logged: set[UUID] = set()


def write_file(life_id: UUID, beat: int) -> bool:
    """Write the file of a process. Return whether it is there: the disk may be full, and storage is checked apart."""
    if settings.KOMAND_S3_BUCKET:
        return False
    path = _path(life_id)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        path.write_text(str(beat))
    except OSError as error:
        logger.warning("cannot tell whether the data folder is shared: %s", error)
        return False
    return True


def remove_files(ids: Iterable[UUID]) -> None:
    for life_id in ids:
        try:
            _path(life_id).unlink(missing_ok=True)
        except OSError as error:
            logger.warning("the file of an ended process is left: %s", error)


def find_strangers(processes: Iterable[ProcessView], list_again: Callable[[], list[ProcessView]]) -> list[ProcessView]:
    """Return the live ones of `processes` whose file is not in the data folder of this process, or only a copy of it.

    list_again: called if a file is missing, because a process that ends removes its row and then its file.
    """
    missing = {process.id for process in processes if _lacks_file(process)}
    return [process for process in list_again() if process.id in missing and process.alive] if missing else []


def describe(strangers: Iterable[ProcessView]) -> str:
    """Return one line of text, such as `not shared with runs on host-b (process 7)`; empty without strangers."""
    names = [f"{process.name} on {process.host} (process {process.pid})" for process in strangers]
    return f"not shared with {', '.join(names)}, so that files of one are not found by the other" if names else ""


def log_new(strangers: Iterable[ProcessView]) -> None:
    """Log the processes that this one has not logged yet."""
    if new := [process for process in strangers if process.id not in _logged]:
        _logged.update(process.id for process in new)
        logger.error("the data folder %s is %s; %s", settings.DATA_DIR, describe(new), REMEDY)


def _lacks_file(process: ProcessView) -> bool:
    if not process.alive or not process.has_file:
        return False
    try:
        written = _path(process.id).read_text()
    except OSError:
        return True
    # It is empty while it is being written.
    return written.isdecimal() and process.beat - int(written) > _MOST_BEHIND


def _path(life_id: UUID) -> Path:
    return Path(settings.DATA_DIR) / "hosts" / str(life_id)
