"""Permissions of skills: parsed from either notation, formatted and compared. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_WORD = re.compile(r"[A-Za-z0-9_.*-]{1,60}")
_MAX_SCOPE = 200


class BadPermission(ValueError):
    """An invalid permission. The message shows the valid notations."""


@dataclass(frozen=True, order=True)
class Permission:
    """Access to a resource, or, with a scope, to one instance of it: `network:outbound:api.example.com`."""

    resource: str
    access: str
    scope: str = ""

    def __str__(self) -> str:
        return ":".join(filter(None, (self.resource, self.access, self.scope)))

    def covers(self, wanted: "Permission") -> bool:
        """Return whether this permission includes the wanted one. Without a scope it applies to all scopes."""
        same = (self.resource, self.access) == (wanted.resource, wanted.access)
        return same and self.scope in ("", wanted.scope)


def read_permission(value: Any) -> Permission:
    """Return the permission in `{"resource", "access", "scope"}` or `resource:access[:scope]`. Raises BadPermission."""
    resource: Any
    access: Any
    scope: Any
    if isinstance(value, str):
        resource, _, rest = value.partition(":")
        access, _, scope = rest.partition(":")
    elif isinstance(value, dict) and not value.keys() - {"resource", "access", "scope"}:
        resource, access, scope = value.get("resource"), value.get("access"), value.get("scope") or ""
    else:
        raise BadPermission(_SHAPES)
    are_texts = isinstance(resource, str) and isinstance(access, str) and isinstance(scope, str)
    if not are_texts or not _WORD.fullmatch(resource) or not _WORD.fullmatch(access) or not _is_scope(scope):
        raise BadPermission(_SHAPES)
    return Permission(resource, access, scope)


_SHAPES = 'Write a permission as "crm:read", "crm:read:scope" or {"resource": "crm", "access": "read", "scope": null}.'


def _is_scope(text: str) -> bool:
    return len(text) <= _MAX_SCOPE and text.isprintable() and text == text.strip()


def missing(required: Iterable[Permission], granted: Iterable[Permission]) -> tuple[Permission, ...]:
    """Return the required permissions that no granted one covers."""
    given = tuple(granted)
    return tuple(wanted for wanted in required if not any(one.covers(wanted) for one in given))
