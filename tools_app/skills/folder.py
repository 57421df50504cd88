"""Reads an instruction skill from a folder: `SKILL.md` with YAML front matter, and the text files beside it."""

import re
from pathlib import Path
from typing import Any

import yaml

from audit_app.kernel.errors import InvalidInput

_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)(.*)\Z", re.DOTALL)
_MAX_FRONT = 16 * 1024
_MAX_FILE_BYTES = 200_000
_MAX_FILES = 200


def read_folder(folder: Path, *, publisher_id: str = "local") -> dict[str, Any]:
    """Return the manifest of the folder's skill.

    The front matter requires `name` and `description`; `version`, `id`, `publisher` and `category` are optional, also
    within `metadata`. Raises InvalidInput (bad_skill_folder).
    """
    front, body = _read_skill_file(folder)
    metadata = front.get("metadata")
    fields: dict[str, Any] = {**metadata, **front} if isinstance(metadata, dict) else front

    def field(name: str, default: str = "") -> str:
        value = fields.get(name, default)
        return str(value).strip() if isinstance(value, str | int | float) else default

    name, description = field("name"), field("description")
    if not name or not description:
        raise InvalidInput("The front matter of SKILL.md requires a name and a description.", code="bad_skill_folder")
    return {
        "skillId": field("id") or re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:57].strip("-"),
        "name": name,
        "version": field("version", "1.0.0"),
        "publisherId": field("publisher") or field("author") or publisher_id,
        "description": description,
        "category": field("category"),
        "instruction": {"body": body.strip(), "files": _files_of(folder)},
    }


def _read_skill_file(folder: Path) -> tuple[dict[str, Any], str]:
    path = folder / "SKILL.md"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}.", code="bad_skill_folder") from None
    found = _FRONT.match(text)
    if found is None or len(found[1]) > _MAX_FRONT:
        raise InvalidInput("SKILL.md must begin with front matter between two lines `---`.", code="bad_skill_folder")
    try:
        front = yaml.safe_load(found[1])
    # PyYAML raises the last three for values that do not match their tag, such as `!!int ""`.
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError) as error:
        raise InvalidInput(f"The front matter of SKILL.md is not YAML: {error}.", code="bad_skill_folder") from None
    if not isinstance(front, dict):
        raise InvalidInput("The front matter of SKILL.md has no fields.", code="bad_skill_folder")
    return front, found[2]


def _is_own_file(path: Path, relative: Path) -> bool:
    """Return whether this is a file of its folder, neither hidden nor too large nor the description itself."""
    if any(part.startswith(".") for part in relative.parts) or str(relative) == "SKILL.md":
        return False
    return not path.is_symlink() and path.is_file() and path.stat().st_size <= _MAX_FILE_BYTES


def _files_of(folder: Path) -> dict[str, str]:
    """Return the text files of the folder, without binary files, links and files outside of it."""
    root = folder.resolve()
    files: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if not _is_own_file(path, relative) or not path.resolve().is_relative_to(root):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if "\0" not in text:
            files[relative.as_posix()] = text
        if len(files) > _MAX_FILES:
            raise InvalidInput(f"The folder has more than {_MAX_FILES} files.", code="bad_skill_folder")
    return files
