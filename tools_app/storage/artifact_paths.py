"""Paths of artifacts. Pure.

A path is a label, never a place on disk, but has to be valid on file systems: clients unpack artifacts into folders.
"""

import re
import unicodedata
from uuid import UUID

FOLDERS = ("out", "files")
_CHILDREN = "files/workstreams"
_OF_CHILD = re.compile(r"files/(?:workstreams/)?(?P<run_id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/(?P<name>.+)")
MAX_CHARACTERS = 200
_MAX_DEPTH = 8
_MAX_NAME_CHARACTERS = 100
_LONGEST_ENDING = 20
# Device names on some systems, with any extension.
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
# A dot segment and a separator as parsers of URLs read them, at any number of layers. Other percent signs mean nothing.
_DOT_SEGMENT = re.compile(r"(?:\.|%(?:25)*2e){1,2}", re.IGNORECASE)
_ENCODED_SEPARATOR = re.compile(r"%(?:25)*(?:2f|5c)", re.IGNORECASE)
_REFUSED_SIGNS = set('\\:*?"<>|')
# Control, format, surrogate, private-use and unassigned characters, line and paragraph separators.
_REFUSED_KINDS = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


class BadPathError(ValueError):
    """An invalid path. The message says why, for the model."""


def checked(path: str) -> str:
    """Return the normalized path. Raises BadPathError."""
    path = unicodedata.normalize("NFC", path)
    if not path or len(path) > MAX_CHARACTERS:
        raise BadPathError(f"A path must have 1 to {MAX_CHARACTERS} characters.")
    if any(sign in _REFUSED_SIGNS or unicodedata.category(sign) in _REFUSED_KINDS for sign in path):
        raise BadPathError('A path must not contain control or invisible characters, nor any of \\ : * ? " < > |')
    folder, *names = path.split("/")
    if folder not in FOLDERS or not names:
        raise BadPathError("A path must begin with out/ or files/, followed by a name, such as out/report.md.")
    if len(names) > _MAX_DEPTH:
        raise BadPathError(f"A path may have at most {_MAX_DEPTH} parts below its folder.")
    for name in names:
        _check_name(name)
    return path


def of_child(path: str, run_id: UUID) -> str:
    """Return the path at which a child run stores a file while it works, so that runs do not overwrite each other's."""
    return f"{_CHILDREN}/{run_id}/{path}"


def merged(path: str, run_id: UUID) -> str:
    """Return the path of a child run's file once it is its parent's."""
    return path.replace(f"{_CHILDREN}/{run_id}/", f"files/{run_id}/", 1)


def child_of(path: str) -> tuple[UUID, str] | None:
    """Return the child run that wrote the file, and its own path for it; None for the file of another run."""
    found = _OF_CHILD.fullmatch(path)
    return (UUID(found["run_id"]), found["name"]) if found else None


def aliases(path: str, child_id: UUID | None = None) -> tuple[str, ...]:
    """Return the paths at which a reader may find the file that it calls so, the most likely first.

    child_id: child run that reads; its own files come first.

    The files of a child run are moved when it ends, and may be named without their `out/` or `files/`.
    """
    found = [path] if child_id is None else [of_child(path, child_id), path]
    if match := _OF_CHILD.fullmatch(path):
        homes = (f"{_CHILDREN}/{match['run_id']}", f"files/{match['run_id']}")
        found += [f"{home}/{folder}{match['name']}" for home in homes for folder in ("", "out/", "files/")]
    return tuple(dict.fromkeys(found))


def folded(path: str) -> str:
    """Return a key that is equal for all paths that a case-insensitive file system considers equal."""
    return unicodedata.normalize("NFC", path.casefold())


def numbered(path: str, number: int) -> str:
    """Return the path, or bare name, of another file of this name: `a.txt` becomes `a (2).txt`."""
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    if not stem or len(ending) > _LONGEST_ENDING:
        stem, dot, ending = name, "", ""
    tail = f" ({number}){dot}{ending}"
    room = min(_MAX_NAME_CHARACTERS, MAX_CHARACTERS - len(folder) - len(slash)) - len(tail)
    return f"{folder}{slash}{stem[: max(room, 1)].rstrip()}{tail}"


def usable_name(name: str) -> str:
    """Return a valid name for a file that a user names so: refused characters become `_`, a long name is shortened."""
    name = unicodedata.normalize("NFC", name)
    kept = "".join("_" if sign in _REFUSED_SIGNS | {"/"} else sign for sign in name if _is_visible(sign)).strip(" .")
    if _DOT_SEGMENT.fullmatch(kept) or _ENCODED_SEPARATOR.search(kept):
        kept = kept.replace("%", "_")
    if _RESERVED.fullmatch(kept):
        kept = f"_{kept}"
    return kept if len(kept) <= _MAX_NAME_CHARACTERS else _shortened(kept)


def _is_visible(sign: str) -> bool:
    return unicodedata.category(sign) not in _REFUSED_KINDS


def _shortened(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    if not stem or len(ending) > _LONGEST_ENDING:
        stem, dot, ending = name, "", ""
    return f"{stem[: _MAX_NAME_CHARACTERS - len(dot) - len(ending)].rstrip(' .')}{dot}{ending}"


def _check_name(name: str) -> None:
    if not name or _DOT_SEGMENT.fullmatch(name) or _ENCODED_SEPARATOR.search(name):
        raise BadPathError("A path must not contain empty parts, `.` or `..`, nor encoded ones (%2e), %2f or %5c.")
    if len(name) > _MAX_NAME_CHARACTERS:
        raise BadPathError(f"Each part of a path may have at most {_MAX_NAME_CHARACTERS} characters.")
    if name != name.strip() or name.endswith("."):
        raise BadPathError("No part of a path may begin or end with a space, or end with a dot.")
    if _RESERVED.fullmatch(name):
        raise BadPathError(f"The name {name} is reserved on some systems.")
