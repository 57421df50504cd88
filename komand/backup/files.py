"""The files of an installation: secrets, and the folders that rows of the database refer to."""

import shutil
from pathlib import Path

_FOLDERS = ("artifacts", "attachments", "prompts", "workspaces")
_HEAD = "audit.head"
_SECRETS = "secrets"


def copy(data: Path, folder: Path) -> None:
    """Copy what is in the data folder and not yet in the backup.

    Called before and after the copy of the database: files are written before their rows and removed after them, so the
    backup has each file that a row in it refers to. The newest seal of the audit log is copied before, since the log
    must not end earlier.
    """
    for name in (*_FOLDERS, _SECRETS):
        for path in sorted((data / name).rglob("*")):
            target = folder / path.relative_to(data)
            if path.is_symlink() or not path.is_file() or target.exists() or path.name.endswith(".part"):
                continue
            _copy_if_there(path, target)
    if (data / _HEAD).exists() and not (folder / _HEAD).exists():
        shutil.copyfile(data / _HEAD, folder / _HEAD)


def _copy_if_there(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(path, target)
    except FileNotFoundError:  # removed since it was listed
        target.unlink(missing_ok=True)


def load(folder: Path, data: Path) -> None:
    """Copy the files of a backup into the data folder, over those of the same names, such as new secrets."""
    for name in (*_FOLDERS, _SECRETS):
        if (folder / name).is_dir():
            shutil.copytree(folder / name, data / name, dirs_exist_ok=True, copy_function=shutil.copyfile)
    (data / _HEAD).unlink(missing_ok=True)
    if (folder / _HEAD).exists():
        shutil.copyfile(folder / _HEAD, data / _HEAD)
