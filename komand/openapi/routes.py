"""The routes of the document: those of the URL configuration and of the consumers, without the HTML pages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

from komand import asgi
from sessions_app.surfaces.base.surface import surfaces

# Pages answer with HTML, errors included, security.txt is a text, and one document is for authorization servers.
# Further pages are those of surfaces that no `openapi` module describes.
_PAGES = (
    "komand.dashboard",
    "komand.next_steps",
    "komand.security_txt",
    "komand.openapi.pages",
    "sessions_app.surfaces.webchat.views",
    "tools_app.mcp_client.client_document",
)
_OPERATORS = "/admin"
_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
_METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True)
class Route:
    """A route.

    path: in the notation of OpenAPI.
    view: a class or a function.
    methods: in lower case.
    """

    path: str
    view: Any
    methods: tuple[str, ...]
    parameters: tuple[tuple[str, Any], ...]  # name and converter, in order


def list_routes() -> list[Route]:
    """Return the routes in the order in which they are matched."""
    found: dict[str, Route] = {}
    for pattern in [*_live(), *_walk(get_resolver().url_patterns, "/", {})]:
        route = _route(*pattern)
        if route is not None:
            found.setdefault(route.path, route)
    return list(found.values())


def _live() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    for route in asgi.routes():
        if not issubclass(route.callback.consumer_class, AsyncWebsocketConsumer):
            yield f"/{route.pattern}", route.callback, route.pattern.converters


def _walk(
    patterns: list[URLPattern | URLResolver], prefix: str, outer: dict[str, Any]
) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    for one in patterns:
        if not isinstance(one.pattern, RoutePattern):
            continue  # a regular expression: the catch-all route of a prefix
        path, converters = f"{prefix}{one.pattern}", {**outer, **one.pattern.converters}
        if path.startswith(_OPERATORS):
            continue
        if isinstance(one, URLResolver):
            yield from _walk(one.url_patterns, path, converters)
        else:
            yield path, one.callback, converters


def _route(path: str, callback: Any, converters: dict[str, Any]) -> Route | None:
    view = getattr(callback, "consumer_class", None) or getattr(callback, "cls", None) or callback
    pages = {surface.urlconf.rpartition(".")[0] for surface in surfaces if not surface.openapi}
    if view.__module__.startswith((*_PAGES, *pages)):
        return None
    methods = _methods_of(view)
    if not methods:
        return None  # a catch-all view
    names = _PARAMETER.findall(path)
    parameters = tuple((name, converters[name]) for name in names)
    return Route(_PARAMETER.sub(r"{\1}", path), view, methods, parameters)


def _methods_of(view: Any) -> tuple[str, ...]:
    if not isinstance(view, type):
        return ("get",)
    if given := getattr(view, "methods", None):
        return tuple(method.lower() for method in given)
    return tuple(method for method in _METHODS if hasattr(view, method))
