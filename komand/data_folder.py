"""Modes of the data folder: nobody but the user who runs Komand may read or write what it keeps.

Imports no Django: the supervisor uses it, too.
"""

import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

# The names that Komand gives to what it keeps. Other entries of the folder may belong to somebody else's program.
_KEPT = (
    "komand.sqlite3*",
    "audit.head",
    "supervisor.*",
    "folder.id",
    "sockets.sock",
    "secrets",
    "valkey",
    "alive",
    "hosts",
    "artifacts",
    "attachments",
    "mcp",
    "workspaces",
)
_OTHERS = 0o077


def restrict_new_files() -> None:
    """Make this process and its children create files and sockets that only their owner can open."""
    os.umask(_OTHERS)


def find_open(folder: Path, names: tuple[str, ...] = ("*",)) -> Iterator[Path]:
    """Yield the folder and what is in it, parents first, where others than the owner have access.

    names: patterns of the entries to look at. Follows no links; skips what belongs to another user.
    """
    if is_open(folder):
        yield folder
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not any(fnmatch(entry.name, name) for name in names):
            continue
        if is_open(entry):
            yield entry
        if entry.is_dir() and not entry.is_symlink():
            for parent, folders, files in os.walk(entry):
                yield from (path for name in (*folders, *files) if is_open(path := Path(parent, name)))


def mend(folder: Path) -> tuple[int, list[OSError]]:
    """Remove the access of other users to the files of the folder. Return the number of changed entries, and
    the errors of those that could not be changed."""
    changed, errors = 0, []
    for path in find_open(folder, _KEPT):
        # Parents come first: once they are private, nobody else can put a link in the place of the entry.
        try:
            path.chmod(path.lstat().st_mode & 0o700)
            changed += 1
        except FileNotFoundError:
            pass  # removed since it was listed
        except OSError as error:
            errors.append(error)
    return changed, errors


def is_open(path: Path) -> bool:
    """Return whether others have access to what this user owns. A link is not open."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return bool(found.st_mode & _OTHERS) and not stat.S_ISLNK(found.st_mode) and found.st_uid == os.geteuid()
