"""The files of an installation: secrets, and the folders that rows of the database refer to."""

import shutil
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from audit_app.kernel.errors import NotFound
from tools_app.storage import file_store

_OF_STORE = ("artifacts", "attachments")
_OF_HOST = ("prompts", "workspaces")
_HEAD = "audit.head"
_SECRETS = "secrets"


def copy(data: Path, folder: Path) -> None:
    """Copy what is in the data folder, or in the bucket, and not yet in the backup.

    Called before and after the copy of the database: files are written before their rows and removed after them, so the
    backup has each file that a row in it refers to. The newest seal of the audit log is copied before, since the log
    must not end earlier.
    """
    for name in _folders():
        for path in sorted((data / name).rglob("*")):
            target = folder / path.relative_to(data)
            if path.is_symlink() or not path.is_file() or target.exists() or path.name.endswith(".part"):
                continue
            _copy_if_there(path, target)
    if settings.KOMAND_S3_BUCKET:
        _copy_of_bucket(folder)
    if (data / _HEAD).exists() and not (folder / _HEAD).exists():
        shutil.copyfile(data / _HEAD, folder / _HEAD)


def _folders() -> tuple[str, ...]:
    """Return the folders of the data folder that are a part of a backup."""
    return (*(() if settings.KOMAND_S3_BUCKET else _OF_STORE), *_OF_HOST, _SECRETS)


def _copy_of_bucket(folder: Path) -> None:
    store = file_store.current()
    for kind in _OF_STORE:
        for name, _ in store.list_files(kind):
            target = folder / name
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                with suppress(NotFound):  # removed since it was listed
                    target.write_bytes(store.read(name))


def _copy_if_there(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(path, target)
    except FileNotFoundError:  # removed since it was listed
        target.unlink(missing_ok=True)


def load(folder: Path, data: Path) -> None:
    """Copy the files of a backup to where they belong here, over those of the same names, such as new secrets.

    A backup of a bucket can be restored into a data folder, and the other way round.
    """
    for name in _folders():
        if (folder / name).is_dir():
            shutil.copytree(folder / name, data / name, dirs_exist_ok=True, copy_function=shutil.copyfile)
    if settings.KOMAND_S3_BUCKET:
        for path in (path for kind in _OF_STORE for path in (folder / kind).rglob("*") if path.is_file()):
            file_store.current().write(path.relative_to(folder).as_posix(), path.read_bytes())
    (data / _HEAD).unlink(missing_ok=True)
    if (folder / _HEAD).exists():
        shutil.copyfile(folder / _HEAD, data / _HEAD)
