"""Permissions of admin pages and of their buttons, each declared on one line of its page's class."""

from typing import Any

from django.http import HttpRequest

from audit_app.rights import Right, holds


def granted_by(*granting: Right) -> Any:
    """Declare a `has_<name>_permission` for users who hold all of these rights."""

    def has_permission(page: Any, request: HttpRequest, subject: object = None) -> bool:
        return all(holds(request.user, right) for right in granting)

    return has_permission


def _refused(page: Any, request: HttpRequest, subject: object = None) -> bool:
    return False


never: Any = _refused  # a `has_<name>_permission` for nobody
