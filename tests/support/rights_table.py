"""The tables "Rights and roles" of docs/security.md, and the routes of the product, spelled alike."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import URLPattern, URLResolver, get_resolver

from komand import asgi

_PAGE = Path(__file__).parents[2] / "docs" / "security.md"
_PARAMETER = re.compile(r"<(?:[a-z]+:)?([a-z_]+)>")
_METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True)
class Route:
    """A method of a route. pattern: as in the URL configuration; consumer: whether it is served outside of Django."""

    method: str
    pattern: str
    consumer: Any = None

    @property
    def path(self) -> str:
        """Return the path with `{}` for each parameter, as the tables spell it."""
        return "/" + _PARAMETER.sub("{}", self.pattern)

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def parameters(self) -> list[str]:
        return _PARAMETER.findall(self.pattern)

    def url(self, values: dict[str, Any]) -> str:
        """Return the path with these values. Raises KeyError for a parameter without one."""
        return "/" + _PARAMETER.sub(lambda match: str(values[match[1]]), self.pattern)


def django_routes() -> list[Route]:
    """Return the routes of the URL configuration. Those with a regular expression for a path always say 404 or 501."""
    return [
        Route(method, pattern)
        for pattern, view in _patterns(get_resolver().url_patterns)
        if not re.search(r"[\^$(]", pattern)
        for method in _methods(view)
    ]


def consumer_routes() -> list[Route]:
    """Return the routes of all consumers. The method of a WebSocket is WS."""
    return [
        Route(method, str(route.pattern), route.callback.consumer_class)
        for route in asgi.routes()
        for method in _methods_of_consumer(route.callback.consumer_class)
    ]


@cache
def rights_by_route() -> dict[str, list[frozenset[str]]]:
    """Return, by route, the sets of rights of which one is needed."""
    found: dict[str, list[frozenset[str]]] = {}
    for rights, _, routes in _rows("Right"):
        for route in _spans(routes):
            found.setdefault(route, []).append(frozenset(_spans(rights)))
    return found


def documented_rights() -> set[str]:
    return {right for rights, _, _ in _rows("Right") for right in _spans(rights)}


def audience_of(route: Route) -> str:
    """Return the first cell of the most specific row of the second table with the route. Raises LookupError."""
    found = [(len(span), who) for who, routes in _rows("Who else") for span in _spans(routes) if _covers(span, route)]
    if not found:
        raise LookupError(f"docs/security.md, Rights and roles, does not list {route.name}")
    return max(found)[1]


def _covers(span: str, route: Route) -> bool:
    method, _, path = span.rpartition(" ")
    if method and method != route.method:
        return False
    return route.path.startswith(path[:-1]) if path.endswith("…") else route.path == path


def _rows(title: str) -> list[tuple[str, ...]]:
    """Return the rows of the table whose first column has this title."""
    lines = iter(_PAGE.read_text().splitlines())
    next(line for line in lines if line.startswith(f"| {title} |"))
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
    return rows


def _spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def _patterns(patterns: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _patterns(pattern.url_patterns, path)
        elif isinstance(pattern, URLPattern):
            yield path, pattern.callback


def _methods(view: Any) -> list[str]:
    """Return the methods of a view: none of those that always say 404 or 501. Functions do not declare theirs."""
    of = getattr(view, "view_class", None) or getattr(view, "cls", None)
    return [name.upper() for name in _METHODS if hasattr(of, name)] if of else ["GET", "POST"]


def _methods_of_consumer(consumer: Any) -> tuple[str, ...]:
    methods: tuple[str, ...] = getattr(consumer, "methods", ("POST",))
    return ("WS",) if issubclass(consumer, AsyncWebsocketConsumer) else methods
