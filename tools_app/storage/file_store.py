"""The content of files by name: in the data folder, or in a bucket for hosts that share no folder.

`STORAGES["files"]` says which of the two. A file has the same name in both, such as `artifacts/<session>/<blob>`, so
that programs which copy folders to buckets move it.
"""

import logging
import os
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, cast

from django.conf import settings
from django.core.files.storage import storages

from audit_app.kernel.errors import AppError, NotFound

logger = logging.getLogger(__name__)

_NOT_HERE = "The file's content is not on this machine."


class FileStore(ABC):
    """A place of files. Names are made of ids, without dot segments. Every method may raise Unavailable."""

    @abstractmethod
    def open_draft(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """Open an empty file of this machine, to be written and then kept under the name. It ends with the block."""

    @abstractmethod
    def keep(self, draft: IO[bytes], name: str) -> None:
        """Store the content of the draft, whole or not at all, also over a file of that name."""

    def write(self, name: str, data: bytes) -> None:
        """Store a file at once, whole or not at all, also over one of that name."""
        with self.open_draft(name) as draft:
            draft.write(data)
            self.keep(draft, name)

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises NotFound."""

    @abstractmethod
    def copy(self, source: str, name: str) -> None:
        """Store a file under a second name, without loading it if possible. Raises NotFound."""

    @abstractmethod
    def remove(self, *names: str) -> None:
        """Delete files. Idempotent."""

    @abstractmethod
    def list_files(self, folder: str) -> Iterator[tuple[str, float]]:
        """Yield the name and the time of change of all files whose names begin with the folder."""

    @abstractmethod
    def find_missing(self, names: Iterable[str]) -> list[str]:
        """Return the names without a file."""

    @abstractmethod
    def has_room(self, least_free_bytes: int) -> bool:
        """Return whether further files leave so much room for the database, which may be on the same disk."""

    @abstractmethod
    def check(self) -> None:
        """Raise Unavailable if files cannot be stored, listed, read and deleted."""

    def discard(self, name: str) -> None:
        """Delete a file that nothing refers to. If that fails it is left, which is logged."""
        try:
            self.remove(name)
        except (AppError, OSError) as error:
            logger.warning("the file %s is left without a row: %s", name, error)


class Folder(FileStore):
    """The data folder."""

    def __str__(self) -> str:
        return str(settings.DATA_DIR)

    @contextmanager
    def open_draft(self, name: str) -> Iterator[IO[bytes]]:
        target = self._make_place(name)
        # Not under its name: a process that was taken for dead may be writing the file, too.
        with NamedTemporaryFile(dir=target.parent, prefix=f"{target.name}.", suffix=".part", delete=False) as draft:
            try:
                yield draft
            finally:
                Path(draft.name).unlink(missing_ok=True)

    def keep(self, draft: IO[bytes], name: str) -> None:
        draft.flush()
        os.fsync(draft.fileno())
        os.replace(draft.name, self._place(name))

    def read(self, name: str) -> bytes:
        try:
            with os.fdopen(os.open(self._place(name), os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                return file.read()
        except OSError:
            raise NotFound(_NOT_HERE) from None

    def copy(self, source: str, name: str) -> None:
        """Give the file a second name; copy it if the file system has no hard links."""
        place, target = self._place(source), self._make_place(name)
        try:
            try:
                os.link(place, target, follow_symlinks=False)
            except FileNotFoundError:
                raise
            except OSError:
                shutil.copyfile(place, target, follow_symlinks=False)
        except FileNotFoundError:
            raise NotFound(f"{_NOT_HERE} Upload it again.") from None

    def remove(self, *names: str) -> None:
        for target in map(self._place, names):
            for file in (target, *target.parent.glob(f"{target.name}.*.part")):
                file.unlink(missing_ok=True)

    def list_files(self, folder: str) -> Iterator[tuple[str, float]]:
        for path in self._place(folder).rglob("*"):
            with suppress(FileNotFoundError):  # removed since it was listed
                found = path.lstat()
                if not stat.S_ISDIR(found.st_mode):
                    yield path.relative_to(settings.DATA_DIR).as_posix(), found.st_mtime

    def find_missing(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if not self._place(name).is_file()]

    def has_room(self, least_free_bytes: int) -> bool:
        return shutil.disk_usage(settings.DATA_DIR).free >= least_free_bytes

    def check(self) -> None:
        pass

    @staticmethod
    def _place(name: str) -> Path:
        return Path(settings.DATA_DIR) / name

    def _make_place(self, name: str) -> Path:
        """Return the place of a new file, in a folder that is there."""
        place = self._place(name)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return place


def current() -> FileStore:
    """Return the store of this installation. A bucket connects with the first call."""
    return cast(FileStore, storages["files"])
