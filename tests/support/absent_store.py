"""A store of files that is away for one read."""

import pytest

from audit_app.kernel.errors import Unavailable
from tools_app.storage.file_store import Folder


def fail_first_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the first read of a file fail, as of a bucket that is away. Return the names of all reads, as they come."""
    read, names = Folder.read, list[str]()

    def read_later(self: Folder, name: str) -> bytes:
        names.append(name)
        if len(names) == 1:
            raise Unavailable("Files cannot be read at the moment.")
        return read(self, name)

    monkeypatch.setattr(Folder, "read", read_later)
    return names
