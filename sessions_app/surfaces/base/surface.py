"""The declaration of a surface, and the registry of all surfaces that the settings list (`KOMAND_SURFACES`).

Everything that has to know the surfaces reads the registry: ASGI and URL routing, error bodies, the OpenAPI document,
CORS, body limits. `docs/adding-a-surface.md` lists the four places of a new surface.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any

from django.conf import settings

from audit_app.kernel.registry import Registry
from sessions_app.surfaces.base.http_errors import HttpError
from tools_app import conf


@dataclass(frozen=True)
class Surface:
    """One public protocol.

    name: name of its package, as in logs and tests.
    prefixes: paths whose errors, CORS and body limits are this surface's; the longest matching prefix of all wins.
    error_body: the JSON body of an error in this protocol; None where people read the answer as a page.
    error_headers: the response headers of an error.
    urlconf: dotted path of its URL configuration; empty if all its routes are consumers.
    consumers: dotted path of the module whose `routes` are its consumers; empty if it has none.
    openapi: dotted path of the module whose `DESCRIPTION` puts its routes into the OpenAPI document; empty for pages.
    cors_headers: request headers of its clients, beyond those that every surface allows to other origins.
    upload_paths: regular expressions of paths whose body is a file, or contains files, and may be longer than others.
    page_view: dotted path of the class that shows a session as the chat page does, see `page_view.py`.
    title: its name for people; by default made of `name`.
    """

    name: str
    prefixes: tuple[str, ...] = ()
    error_body: Callable[[HttpError], dict[str, Any]] | None = None
    error_headers: Callable[[HttpError], Mapping[str, str]] = attrgetter("headers")
    urlconf: str = ""
    consumers: str = ""
    openapi: str = ""
    cors_headers: tuple[str, ...] = ()
    upload_paths: tuple[str, ...] = ()
    page_view: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name.replace("_", " ").capitalize())

    def routes(self) -> Sequence[Any]:
        """Return the ASGI routes of its consumers. Imports them."""
        routes: Sequence[Any] = import_module(self.consumers).routes if self.consumers else ()
        return routes


surfaces: Registry[Surface] = Registry("surface", lambda surface: surface.name)


def most_specific_first() -> list[Surface]:
    """Return all surfaces, those with the longest prefix first: the order in which their routes are tried."""
    return sorted(surfaces, key=lambda surface: -max(map(len, surface.prefixes), default=0))


def surface_at(path: str) -> Surface | None:
    """Return the surface that owns a path; None for pages and for paths of no surface."""
    owned = [(len(prefix), surface) for surface in surfaces for prefix in surface.prefixes if path.startswith(prefix)]
    return max(owned, key=lambda pair: pair[0])[1] if owned else None


def most_body_bytes(path: str) -> int:
    """Return the maximum length of a body that is sent to a path; uploads may be longer than others."""
    surface = surface_at(path)
    is_upload = surface is not None and any(re.match(upload, path) for upload in surface.upload_paths)
    return conf.artifact_limits()[0] if is_upload else int(settings.KOMAND_MAX_BODY_BYTES)
