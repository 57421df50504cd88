"""Changes of shared memory by people. Each is audited."""

from typing import Any

from django.db import transaction

from audit_app import services as audit
from audit_app.kernel.errors import NotFound, found
from tools_app.storage import shared_memory
from tools_app.storage.shared_memory import Shared, Space

_UNKNOWN = "There is no value under this key."


def get(space: Space, key: str) -> Shared:
    """Return the value under a key. Raises NotFound (unknown_key)."""
    return found(shared_memory.read(space, key), _UNKNOWN, code="unknown_key")


def put(space: Space, key: str, value: Any, *, writer: str, expected: int | None = None) -> Shared:
    """Store a value. Owns its transaction. expected, errors: as `shared_memory.write`."""
    with transaction.atomic():
        stored = shared_memory.write(space, key, value, writer=writer, expected=expected)
        _record("SharedValueStored", space, key, writer, version=stored.version)
        return stored


def remove(space: Space, key: str, *, writer: str) -> None:
    """Delete a value. Owns its transaction. Raises NotFound (unknown_key)."""
    with transaction.atomic():
        if not shared_memory.delete(space, key):
            raise NotFound(_UNKNOWN, code="unknown_key")
        _record("SharedValueDeleted", space, key, writer)


def _record(action: str, space: Space, key: str, writer: str, **details: Any) -> None:
    audit.record(action, details={"space": space.kind, "of": str(space.owner_id), "key": key, **details}, actor=writer)
