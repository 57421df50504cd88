"""The OpenAPI document, built from the routes and the descriptions of the surfaces at the first request for it."""

import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import yaml
from django.conf import settings
from django.urls.converters import SlugConverter, UUIDConverter

from komand import __version__
from komand.openapi import statuses, unowned_routes
from komand.openapi.routes import Route, list_routes
from sessions_app.surfaces.base.openapi.fields import body_schema, fields_of, schema_of, without_null
from sessions_app.surfaces.base.openapi.operations import Description, Operation, Parameter, operation_of
from sessions_app.surfaces.base.openapi.schemas import Schema
from sessions_app.surfaces.base.surface import surface_at, surfaces

_ABOUT = """\
Every surface of one installation. All of them share the same sessions and runs.

A trailing slash is accepted everywhere. Every answer has the header `X-Request-Id`: the one of the request, or a new
one; logs, events and the audit log contain it too. 429 and 503 have `Retry-After`. Operations marked
`x-komand-streams` stream, or wait for an answer."""


def _key(place: str, name: str, description: str) -> dict[str, str]:
    return {"type": "apiKey", "in": place, "name": name, "description": description}


_JWT = "A JWT of /api/auth/login, or an API key (`sk-user-…`)."
_LOGIN = "The login of the pages. Requests that change something also need the header X-CSRFToken."
_TICKET = "A ticket of /api/auth/ticket: valid for one connection within a minute."
_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": _JWT},
    "cookie": _key("cookie", settings.SESSION_COOKIE_NAME, _LOGIN),
    "thread_cookie": _key("cookie", "ks_uat", "The login of /v1/auth/pw/signin."),
    "access_token": _key("query", "access_token", "A JWT or a token of /token/issue, where no header can be sent."),
    "ticket": _key("query", "ticket", _TICKET),
    "visitor": {"type": "http", "scheme": "bearer", "description": "A visitor's token of /webchat/{account}/sessions."},
}
_SECURITY: dict[str, list[dict[str, list[str]]]] = {
    "open": [],
    "any": [{"bearer": []}, {"cookie": []}],
    "bearer": [{"bearer": []}],
    "thread": [{"bearer": []}, {"thread_cookie": []}],
    "query": [{"bearer": []}, {"access_token": []}, {"ticket": []}],
    "visitor": [{"visitor": []}],
}


def descriptions() -> tuple[Description, ...]:
    """Return the descriptions of all surfaces, and those of the routes that belong to no surface."""
    owned = (import_module(surface.openapi).DESCRIPTION for surface in surfaces if surface.openapi)
    return (*owned, *unowned_routes.DESCRIPTIONS)


@cache
def build() -> dict[str, Any]:
    """Return the document as JSON data. It is shared by all callers: do not change it."""
    described = descriptions()
    paths = {route.path: item for route in list_routes() if (item := _path_item(route))}
    responses = {name: response for one in described for name, response in statuses.shared_responses(one).items()}
    used = set(re.findall(r"#/components/responses/(\w+)", json.dumps(paths)))
    return {
        "openapi": "3.1.0",
        "info": {"title": "Komand", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": one.tag, "description": one.about} for one in described],
        "paths": paths,
        "components": {
            "schemas": {name: schema for one in described for name, schema in one.components.items()},
            "responses": {name: responses[name] for name in sorted(used)},
            "securitySchemes": _SCHEMES,
            "headers": {
                "RequestId": {"description": "The id of this request.", "schema": {"type": "string"}},
                "RetryAfter": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}},
            },
            "parameters": {
                "RequestId": {
                    "name": "X-Request-Id",
                    "in": "header",
                    "description": "An id for this request, for logs and the audit log. Default: a new one.",
                    "schema": {"type": "string", "maxLength": 128, "pattern": r"^[A-Za-z0-9._:\-]{1,128}$"},
                }
            },
        },
    }


def find_operations(route: Route) -> dict[str, tuple[Description, Operation]]:
    """Return the operations of a route by method, each with the description of its surface."""
    surface = surface_at(route.path)
    candidates = unowned_routes.DESCRIPTIONS if surface is None else (import_module(surface.openapi).DESCRIPTION,)
    return {
        method: (one, operation)
        for method in route.methods
        for one in candidates
        if (operation := operation_of(route.view, method) or one.operations.get(f"{method.upper()} {route.path}"))
    }


def _path_item(route: Route) -> dict[str, Any]:
    found = find_operations(route)
    item: dict[str, Any] = {method: _operation(route, method, *pair) for method, pair in found.items()}
    if item and route.parameters:
        item["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": _path_schema(converter)}
            for name, converter in route.parameters
        ]
    return item


def _path_schema(converter: Any) -> Schema:
    if isinstance(converter, UUIDConverter):
        return {"type": "string", "format": "uuid"}
    if isinstance(converter, SlugConverter):
        return {"type": "string", "pattern": "^[-a-zA-Z0-9_]+$"}
    return {"type": "string", "minLength": 1}


def _operation(route: Route, method: str, one: Description, operation: Operation) -> dict[str, Any]:
    parts = [part.strip("{}").replace("-", "_") for part in route.path.split("/") if part]
    written: dict[str, Any] = {
        "operationId": "_".join([*parts, method]),
        "tags": [one.tag],
        "summary": operation.summary,
        "security": _SECURITY[operation.access or one.access],
        "parameters": [{"$ref": "#/components/parameters/RequestId"}, *_parameters(operation)],
        "responses": statuses.responses(one, operation, method, has_path=bool(route.parameters)),
    }
    if description := operation.description or _docstring(route.view, method):
        written["description"] = description
    if (body := operation.body) is not None:
        schema = body_schema(body, partial=operation.partial) if isinstance(body, type) else body
        written["requestBody"] = {"required": True, "content": {operation.media_type: {"schema": schema}}}
    if operation.streams:
        written["x-komand-streams"] = True
    return written


def _docstring(view: Any, method: str) -> str:
    """Return the docstring of the method, or else the one that the view itself has: not an inherited one."""
    own = getattr(view, method, None) if isinstance(view, type) else view
    text = inspect.getdoc(own) if own is not None and getattr(own, "__doc__", None) else view.__dict__.get("__doc__")
    return " ".join(inspect.cleandoc(text or "").split())


def _parameters(operation: Operation) -> Iterator[dict[str, Any]]:
    query = {} if operation.query is None else fields_of(operation.query)
    for one in [*(_query_parameter(*field) for field in query.items()), *operation.parameters]:
        yield {
            "name": one.name,
            "in": one.where,
            "required": one.required,
            "description": one.description,
            "schema": one.schema,
        }


def _query_parameter(name: str, field: Any) -> Parameter:
    schema = dict(without_null(schema_of(field)))
    return Parameter(name, schema.pop("description", ""), schema, required=bool(field.required))


def written(kind: str) -> bytes:
    """Return the document as bytes. kind: json or yaml."""
    found = json.dumps(build(), ensure_ascii=False, separators=(",", ":"))
    if kind == "json":
        return found.encode()
    # Parsed again, because YAML writes objects that are shared as references.
    dumped: str = yaml.dump(json.loads(found), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=120)
    return dumped.encode()
