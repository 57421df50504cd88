"""The manifest of a backup, written last: without it, or with another content of a file, a folder is no backup."""

import json
from dataclasses import asdict, dataclass, field
from hashlib import file_digest
from pathlib import Path

NAME = "manifest.json"
FORMAT = 1


class BadBackupError(Exception):
    """The folder is no complete backup, or was changed since it was written. The message says why."""


@dataclass
class Manifest:
    """The description of a backup.

    database: `sqlite` or `postgresql`.
    migrations: those applied, as [app, name].
    rows: number by table.
    columns, sequences: of PostgreSQL, by table and by name.
    secrets_elsewhere: variables whose secrets are not included.
    files: SHA-256 by path in the folder.
    """

    created_at: str
    version: str
    database: str
    migrations: list[list[str]]
    rows: dict[str, int]
    columns: dict[str, list[str]] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    secrets_elsewhere: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Compute the digests of all files in the folder and write the manifest."""
        self.files = _digests(folder)
        (folder / NAME).write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read the manifest and verify all files against it. Raises BadBackupError."""
        try:
            content = json.loads((folder / NAME).read_text())
        except FileNotFoundError:
            raise BadBackupError(f"{folder} is not a complete backup: {NAME} is missing.") from None
        except (OSError, ValueError) as error:
            raise BadBackupError(f"{folder / NAME} cannot be read: {error}") from error
        if content.get("format") != FORMAT:
            raise BadBackupError(f"The backup has the format {content.get('format')}; this release reads {FORMAT}.")
        manifest = cls(**content)
        found = _digests(folder)
        for path in sorted(manifest.files.keys() | found.keys()):
            if manifest.files.get(path) != found.get(path):
                state = "missing" if path not in found else "changed" if path in manifest.files else "not part of it"
                raise BadBackupError(f"The backup is damaged: {path} is {state}.")
        return manifest


def _digests(folder: Path) -> dict[str, str]:
    digests = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / NAME:
            with path.open("rb") as file:
                digests[str(path.relative_to(folder))] = file_digest(file, "sha256").hexdigest()
    return digests
