"""Every page and button of the admin, for everybody, compared with docs/security.md, "Rights and roles".

A page that the table does not name takes Django's permission for its model. Requests name objects that do not exist:
the admin checks the permission first.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import transaction
from django.test import Client

from tests.support.rest import make_user
from tests.support.rights_table import Route, audience_of, django_routes, rights_by_route

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

_BACKEND = "django.contrib.auth.backends.ModelBackend"
_PAGE = re.compile(r"/admin/(?P<app>[a-z]+_app|auth)/(?P<model>[a-z]+)/(?P<rest>.*)")
_SUFFIXES = {"": ("view", "change"), "add/": ("add",), "{}/change/": ("view", "change"), "{}/delete/": ("delete",)}
# They redirect to the page, or answer "does not exist", before they look at permissions, and show nothing.
_REDIRECTS = ("{}/", "{}/history/")
# Of Django: who adds a user edits them next. Who connects a model adds its provider and gives it to the default agent.
_NEED_ALL = {
    "/admin/auth/user/add/": ("auth.add_user", "auth.change_user"),
    "/admin/agents_app/modelprovider/connect/": (
        "agents_app.add_modelprovider",
        "agents_app.change_modelprovider",
        "agents_app.change_agent",
    ),
}


def needed(route: Route) -> list[frozenset[str]]:
    """Return the sets of permissions of which one is needed; none for pages of all staff."""
    found = rights_by_route().get(f"POST {route.path}") or rights_by_route().get(f"GET {route.path}")
    page = _PAGE.fullmatch(route.path)
    if found or page is None:
        return found or []
    if route.path in _NEED_ALL:
        return [frozenset(_NEED_ALL[route.path])]
    actions = _SUFFIXES.get(page["rest"], ("change",))
    return [frozenset([f"{page['app']}.{action}_{page['model']}"]) for action in actions]


def pages() -> Iterator[Route]:
    """Return each page once: buttons are pressed, other pages are read."""
    for route in django_routes():
        page = _PAGE.fullmatch(route.path)
        is_button = page is not None and page["rest"] not in _SUFFIXES
        if page and page["rest"] not in _REDIRECTS and route.method == ("POST" if is_button else "GET"):
            yield route


GUARDED = sorted({page.path: page for page in pages()}.values(), key=lambda route: route.path)


class Staff:
    """A client whose user has exactly the permissions that are given to each request."""

    def __init__(self, name: str, *, is_staff: bool = True) -> None:
        self.user: User = make_user(name, is_staff=is_staff)
        self._client = Client(raise_request_exception=False)
        self._client.force_login(self.user, _BACKEND)

    def status(self, route: Route, permissions: Any = ()) -> int:
        with transaction.atomic():
            self.user.user_permissions.set(permissions)
            answer = self._client.generic(route.method, route.url(dict.fromkeys(route.parameters, "0")))
            transaction.set_rollback(True)
        is_login = answer.status_code == 302 and answer.headers["Location"].startswith("/admin/login")
        return 401 if is_login else answer.status_code


def is_in(permission: Permission, names: frozenset[str]) -> bool:
    return f"{permission.content_type.app_label}.{permission.codename}" in names


@pytest.fixture
def permissions() -> list[Permission]:
    return list(Permission.objects.select_related("content_type"))


def test_the_admin_has_pages() -> None:
    assert len(GUARDED) > 100
    assert all(needed(route) for route in GUARDED)


def test_only_staff_enter_the_admin() -> None:
    ordinary, stranger = Staff("bob", is_staff=False), Client()
    for route in django_routes():
        if route.method != "GET" or not route.path.startswith("/admin/") or _is_open(route):
            continue
        assert ordinary.status(route) == 401, route.path
        answer = stranger.get(route.url(dict.fromkeys(route.parameters, "0")))
        assert (answer.status_code, answer.headers["Location"][:12]) == (302, "/admin/login"), route.path


def test_staff_without_permissions_open_no_page_of_a_table() -> None:
    staff = Staff("sam")
    assert [route.path for route in GUARDED if staff.status(route) != 403] == []


@pytest.mark.whole
def test_the_permission_of_a_page_opens_it(permissions: list[Permission]) -> None:
    staff, closed = Staff("ann"), []
    for route in GUARDED:
        for names in needed(route):
            given = [permission for permission in permissions if is_in(permission, names)]
            if staff.status(route, given) == 403 and staff.status(route, permissions) != 403:
                closed.append(f"{route.path} with {names}")
    assert closed == []


@pytest.mark.whole
def test_all_other_permissions_do_not_open_a_page(permissions: list[Permission]) -> None:
    staff, opened = Staff("dan"), []
    for route in GUARDED:
        opening = frozenset().union(*needed(route))
        if staff.status(route, [permission for permission in permissions if not is_in(permission, opening)]) != 403:
            opened.append(route.path)
    assert opened == []


def _is_open(route: Route) -> bool:
    try:
        return audience_of(route) == "anyone, without a login"
    except LookupError:
        return False
