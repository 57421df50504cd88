"""Every route of every surface, for everybody, compared with the tables of docs/security.md, "Rights and roles".

Where a route takes a right, a user with that right alone is let in, and one with all other rights is not. Where it
takes none, all rights together open no more than a user without rights has.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client

from audit_app.rights import rights
from sessions_app.identity import access_tokens
from sessions_app.identity.api_keys import create_api_key
from sessions_app.identity.scopes import ALL, EXEMPT_PATHS, READ, RIGHTS, SENDERS_ANY, described, surface_at
from tests.security.route_world import World, names_an_object
from tests.support.rest import make_user
from tests.support.rights import make_operator
from tests.support.rights_table import Route, audience_of, django_routes, documented_rights, rights_by_route

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

ALLOWED, LOGIN, REFUSED, MISSING = "allowed", "login", "refused", "not found"
NO_METHOD = 405
_BROWSER = ("/chat/", "/login", "/logout", "/account", "/connect-model", "/next", "/tour")
_LINK = "holders of a link to a chat"
_WITHOUT_LOGIN = ("anyone, without a login", "holders of a signed address", _LINK, "users in the middle of a login")


@dataclass
class Caller:
    """Somebody who walks. key: an API key; name: for messages."""

    name: str
    user: User | None = None
    key: str = ""
    _headers: dict[str, str] = field(default_factory=dict)
    _client: Client = field(default_factory=partial(Client, raise_request_exception=False))

    def __post_init__(self) -> None:
        if self.user:
            self._client.force_login(self.user, "django.contrib.auth.backends.ModelBackend")
        bearer = self.key or (access_tokens.open_login(self.user).access if self.user else "")
        self._headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        self._cookies = self._client.cookies.output(header="", sep=";")

    def status(self, world: World, route: Route) -> int:
        """Return the status of the answer. What the request changes is rolled back."""
        is_page = route.path == "/" or route.path.startswith((*_BROWSER, "/admin"))
        headers = {} if is_page else self._headers
        data, kind = ({}, {}) if is_page else (json.dumps(world.body(route)), {"content_type": "application/json"})
        self._client.cookies = SimpleCookie(self._cookies)
        with transaction.atomic():
            answer = self._client.generic(
                route.method, world.url(route), b"" if is_page else data, headers=headers, **kind
            )
            transaction.set_rollback(True)
        goes_to = answer.headers.get("Location", "") if route.path != "/logout" else ""
        is_login = answer.status_code == 302 and urlsplit(goes_to).path in ("/login", "/admin/login/")
        # Pages answer 401 to a wrong password or code of a user whom they let in.
        return 401 if is_login else 400 if is_page and answer.status_code == 401 else answer.status_code


@pytest.fixture
def world(settings: Any) -> World:
    settings.KOMAND_API_LIMIT = settings.KOMAND_CHAT_LIMIT = settings.KOMAND_LOGIN_LIMIT = 0
    settings.KOMAND_SECURITY_CONTACT = ["mailto:security@komand.example"]
    settings.KOMAND_PUBLIC_URL = "https://komand.example"
    return World()


@pytest.fixture(scope="module")
def routes() -> list[Route]:
    return django_routes()


def outcome(status: int) -> str:
    return {401: LOGIN, 403: REFUSED, 404: MISSING}.get(status, ALLOWED)


def walk(world: World, caller: Caller, routes: Iterable[Route], expected: Callable[[Route], set[str]]) -> None:
    """Fail unless every route answers the caller as expected, with all differences in one message."""
    wrong = []
    for route in routes:
        status = caller.status(world, route)
        if status != NO_METHOD and outcome(status) not in expected(route):
            wrong.append(f"{route.name}: {status}, expected {' or '.join(expected(route))}")
    assert not wrong, f"as {caller.name}:\n" + "\n".join(wrong)


def plainly(route: Route, *, rights_open: bool = False) -> set[str]:
    """Return the outcomes for a user without API key. rights_open: they hold every right."""
    if audience_of(route) == "anyone, without a login":
        return {ALLOWED}
    if audience_of(route) == "holders of a signed address":
        return {REFUSED}
    if audience_of(route) == _LINK:
        return {MISSING}
    if audience_of(route) == "users in the middle of a login":
        return {ALLOWED, LOGIN}
    if rights_by_route().get(route.name):
        return {ALLOWED} if rights_open else {REFUSED, MISSING}
    return {MISSING} if names_an_object(route) else {ALLOWED}


def without_login(route: Route) -> set[str]:
    return plainly(route) if audience_of(route) in _WITHOUT_LOGIN else {LOGIN}


def outside_of_admin(routes: Iterable[Route]) -> Iterator[Route]:
    return (route for route in routes if not route.path.startswith("/admin"))


def test_the_table_names_every_right_and_only_routes_that_exist(routes: list[Route]) -> None:
    assert documented_rights() == {right.permission for right in rights}
    assert set(rights_by_route()) <= {route.name for route in routes}


@pytest.mark.whole
def test_every_request_of_the_walk_names_objects_that_exist(world: World, routes: list[Route]) -> None:
    """Without this, a wrong id would look like a guarded route."""

    def found(route: Route) -> set[str]:
        more = {MISSING} if route.path in _OWNER_FINDS_NOTHING else set()
        return {ALLOWED, REFUSED, *more, *plainly(route)} - ({MISSING} - more)

    walk(world, Caller("their owner", world.alice), outside_of_admin(routes), found)


# alice has no such object, or the route ends with a 404 of its own.
_OWNER_FINDS_NOTHING = {
    "/api/v1/agents/{}/children/{}/details",
    "/chat/{}/agent",
    "/share/{}",  # the token is known to nobody
    "/share/{}/files/{}",
}


def test_without_a_login(world: World, routes: list[Route]) -> None:
    walk(world, Caller("nobody"), outside_of_admin(routes), without_login)


@pytest.mark.parametrize("is_staff", [False, pytest.param(True, marks=pytest.mark.whole)])
def test_users_without_rights(world: World, routes: list[Route], is_staff: bool) -> None:
    walk(world, Caller("sam", make_user("sam", is_staff=is_staff)), outside_of_admin(routes), plainly)


@pytest.mark.whole
def test_a_user_with_every_right(world: World, routes: list[Route]) -> None:
    walk(world, Caller("carol", make_operator("carol")), outside_of_admin(routes), partial(plainly, rights_open=True))


def test_a_single_right_opens_its_routes(world: World, routes: list[Route]) -> None:
    for number, right in enumerate(rights):
        only = frozenset([right.permission])
        opened = [route for route in outside_of_admin(routes) if only in rights_by_route().get(route.name, ())]
        walk(world, Caller(right.permission, make_operator(f"ann{number}", right)), opened, lambda _: {ALLOWED})


@pytest.mark.whole
def test_without_one_right_its_routes_are_closed_whatever_else_is_held(world: World, routes: list[Route]) -> None:
    for number, route in enumerate(route for route in outside_of_admin(routes) if route.name in rights_by_route()):
        opening = set().union(*rights_by_route()[route.name])
        others = [right for right in rights if right.permission not in opening]
        caller = Caller(f"all but {opening}", make_operator(f"dan{number}", *others))
        walk(world, caller, [route], lambda _: {REFUSED, MISSING})


def scopes_to_walk() -> list[tuple[str, ...]]:
    """Return every scope. Those that extend to no surface of their own are combined with `all`."""
    return [(name, ALL) if name in (RIGHTS, SENDERS_ANY) else (name,) for name in described()]


def by_key(route: Route, scopes: tuple[str, ...]) -> set[str]:
    """Return the outcomes for an API key with these scopes whose user holds every right."""
    audience, surface = audience_of(route), surface_at(route.path.replace("{}", "x"))
    if audience in _WITHOUT_LOGIN:
        return plainly(route)
    if audience == "users with a browser session":
        return {LOGIN}
    reads = {ALL, READ, surface, f"{surface}:read"} & {*scopes}
    writes = {ALL, surface} & {*scopes}
    if route.path not in EXEMPT_PATHS and not (reads if route.method == "GET" else writes):
        return {REFUSED}
    if audience == "users, but not by an API key":
        return {REFUSED}
    return plainly(route, rights_open=RIGHTS in scopes)


def kinds(routes: Iterable[Route]) -> list[Route]:
    """Return a route of each kind: surface, reading or writing, audience, guarded by a right, naming an object."""
    chosen: dict[Any, Route] = {}
    for route in routes:
        is_guarded = route.name in rights_by_route()
        place = surface_at(route.path.replace("{}", "x")), audience_of(route)
        chosen.setdefault((*place, route.method == "GET", is_guarded, names_an_object(route)), route)
    return list(chosen.values())


def test_api_keys(world: World, routes: list[Route]) -> None:
    carol, walked = make_operator("carol"), kinds(outside_of_admin(routes))
    for scopes in scopes_to_walk():
        key = create_api_key(carol, "walk", scopes=scopes).key
        walk(world, Caller(f"a key of {'+'.join(scopes)}", key=key), walked, partial(by_key, scopes=scopes))
