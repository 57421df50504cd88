"""The OpenAPI document, built from the routes and the descriptions of the surfaces at the first request for it."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from django.urls.converters import SlugConverter, UUIDConverter

from komand import __version__
from komand.openapi import statuses, unowned_routes
from komand.openapi.routes import Route, list_routes
from sessions_app.surfaces.base.openapi.fields import body_schema, fields_of, schema_of, without_null
from sessions_app.surfaces.base.openapi.operations import Description, Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import Schema
from sessions_app.surfaces.base.surface import surfaces

_ABOUT = """\
Every surface of one installation. All of them share the same sessions and runs.

A trailing slash is accepted everywhere. Every answer has the header `X-Request-Id`: the one of the request, or a new
one; logs, events and the audit log contain it too. 429 and 503 have `Retry-After`. Operations marked
`x-komand-streams` stream, or wait for an answer."""
_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A JWT of /api/auth/login, or an API key (`sk-user-…`).",
    },
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "komand_session",
        "description": "The login of the pages. Requests that change something also need the header X-CSRFToken.",
    },
    "thread_cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "ks_uat",
        "description": "The login of /v1/auth/pw/signin.",
    },
    "access_token": {
        "type": "apiKey",
        "in": "query",
        "name": "access_token",
        "description": "A JWT or an API key, for clients that cannot send headers.",
    },
    "ticket": {
        "type": "apiKey",
        "in": "query",
        "name": "ticket",
        "description": "A ticket of /api/auth/ticket: valid for one connection within a minute.",
    },
}
_SECURITY: dict[str, list[dict[str, list[str]]]] = {
    "open": [],
    "any": [{"bearer": []}, {"cookie": []}],
    "bearer": [{"bearer": []}],
    "thread": [{"bearer": []}, {"thread_cookie": []}],
    "query": [{"bearer": []}, {"access_token": []}, {"ticket": []}],
}


def descriptions() -> tuple[Description, ...]:
    """Return the descriptions of all surfaces, and those of the routes that belong to no surface."""
    return (
        *(import_module(surface.openapi).DESCRIPTION for surface in surfaces if surface.openapi),
        *unowned_routes.DESCRIPTIONS,
    )


@cache
def build() -> dict[str, Any]:
    """Return the document as JSON data. It is shared by all callers: do not change it."""
    described = descriptions()
    operations = {name: (one, operation) for one in described for name, operation in one.operations.items()}
    paths = {route.path: item for route in list_routes() if (item := _path_item(route, operations))}
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


def _path_item(route: Route, operations: Mapping[str, tuple[Description, Operation]]) -> dict[str, Any]:
    """Return the described operations of a route. operations: by method and path."""
    names = {method: f"{method.upper()} {route.path}" for method in route.methods}
    item: dict[str, Any] = {
        method: _operation(route, method, *operations[name]) for method, name in names.items() if name in operations
    }
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
        "security": _SECURITY[operation.access],
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
    given = list(operation.parameters)
    if operation.query is not None:
        fields = [(name, one, dict(without_null(schema_of(one)))) for name, one in fields_of(operation.query).items()]
        given = [
            Parameter(name, schema.pop("description", ""), schema, required=bool(one.required))
            for name, one, schema in fields
        ] + given
    for parameter in given:
        yield {
            "name": parameter.name,
            "in": parameter.where,
            "required": parameter.required,
            "description": parameter.description,
            "schema": parameter.schema,
        }
