"""The document itself, from the routes and what each surface says of its own. Loaded when it is asked for first."""

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from django.urls.converters import SlugConverter, UUIDConverter

from komand import __version__
from komand.openapi import statuses, unowned_routes
from komand.openapi.routes import Route, list_routes
from sessions_app.surfaces.base.openapi.fields import body_schema, fields_of, schema_of, without_null
from sessions_app.surfaces.base.openapi.operations import Description, Operation
from sessions_app.surfaces.base.openapi.schemas import Schema
from sessions_app.surfaces.base.surface import surfaces

_ABOUT = """\
Every surface of one installation. The same sessions and runs stand behind all of them.

A trailing slash is accepted everywhere. Every answer has `X-Request-Id`: yours, or a new one; logs, events and the
audit log have it too. 429 and 503 say in `Retry-After` when to come again. Operations marked
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
        "description": "The login of the pages. What changes something needs the header X-CSRFToken too.",
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
        "description": "A JWT or an API key, where a client can put it nowhere else.",
    },
    "ticket": {
        "type": "apiKey",
        "in": "query",
        "name": "ticket",
        "description": "Of /api/auth/ticket, good for one connection within a minute.",
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
    return (
        *(import_module(surface.openapi).DESCRIPTION for surface in surfaces if surface.openapi),
        *unowned_routes.DESCRIPTIONS,
    )


@cache
def build() -> dict[str, Any]:
    """The whole document, as JSON data. It is the same for everybody; do not change it."""
    told = descriptions()
    by_path = {path: (one, methods) for one in told for path, methods in one.operations.items()}
    paths = {}
    for route in list_routes():
        if route.path in by_path:
            one, methods = by_path[route.path]
            paths[route.path] = _path_item(route, one, methods)
    components: dict[str, Schema] = {}
    responses: dict[str, Any] = {}
    for one in told:
        components |= one.components
        responses |= statuses.shared_responses(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Komand", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": one.tag, "description": one.about} for one in told],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {name: responses[name] for name in sorted(_referred(paths))},
            "securitySchemes": _SCHEMES,
            "headers": {
                "RequestId": {"description": "The id of this request.", "schema": {"type": "string"}},
                "RetryAfter": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}},
            },
            "parameters": {
                "RequestId": {
                    "name": "X-Request-Id",
                    "in": "header",
                    "description": "What this request is to be found by later.",
                    "schema": {"type": "string", "maxLength": 128, "pattern": r"^[A-Za-z0-9._:\-]{1,128}$"},
                }
            },
        },
    }


def undescribed() -> list[str]:
    """Each method of a route that no surface describes, and each described one that there is not."""
    there = {(route.path, method) for route in list_routes() for method in route.methods}
    told = {(path, method) for one in descriptions() for path, methods in one.operations.items() for method in methods}
    return [f"{method.upper()} {path}" for path, method in sorted(there ^ told)]


def _referred(paths: Mapping[str, Any]) -> set[str]:
    """The shared responses that some operation can give."""
    prefix = "#/components/responses/"
    answers = [
        answer
        for item in paths.values()
        for method in item
        if method != "parameters"
        for answer in item[method]["responses"].values()
    ]
    return {answer["$ref"].removeprefix(prefix) for answer in answers if "$ref" in answer}


def _path_item(route: Route, one: Description, methods: Mapping[str, Operation]) -> dict[str, Any]:
    item: dict[str, Any] = {method: _operation(route, one, method, operation) for method, operation in methods.items()}
    if route.parameters:
        item["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": _converted(converter)}
            for name, converter in route.parameters
        ]
    return item


def _converted(converter: Any) -> Schema:
    if isinstance(converter, UUIDConverter):
        return {"type": "string", "format": "uuid"}
    if isinstance(converter, SlugConverter):
        return {"type": "string", "pattern": "^[-a-zA-Z0-9_]+$"}
    return {"type": "string", "minLength": 1}


def _operation(route: Route, one: Description, method: str, operation: Operation) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": _operation_id(route, method),
        "tags": [one.tag],
        "summary": operation.summary,
        "security": _SECURITY[operation.access],
        "parameters": [{"$ref": "#/components/parameters/RequestId"}, *_parameters(operation)],
        "responses": statuses.responses(one, operation, method, has_path=bool(route.parameters)),
    }
    if words := operation.description or _docstring(route.view, method):
        said["description"] = words
    if operation.body is not None:
        said["requestBody"] = _body(operation)
    if operation.waits:
        said["x-komand-streams"] = True
    return said


def _operation_id(route: Route, method: str) -> str:
    words = [word.strip("{}").replace("-", "_") for word in route.path.split("/") if word]
    return "_".join([*words, method])


def _docstring(view: Any, method: str) -> str:
    """What the code says of this method, else of the resource as far as that is about it alone."""
    own = getattr(view, method, None) if isinstance(view, type) else view
    words = inspect.getdoc(own) if own is not None and getattr(own, "__doc__", None) else view.__dict__.get("__doc__")
    return " ".join(inspect.cleandoc(words or "").split())


def _parameters(operation: Operation) -> Iterator[dict[str, Any]]:
    if operation.query is not None:
        for name, one in fields_of(operation.query).items():
            schema = dict(without_null(schema_of(one)))
            yield {
                "name": name,
                "in": "query",
                "required": bool(one.required),
                "description": schema.pop("description", ""),
                "schema": schema,
            }
    for parameter in operation.parameters:
        yield {
            "name": parameter.name,
            "in": parameter.where,
            "required": parameter.required,
            "description": parameter.description,
            "schema": parameter.schema,
        }


def _body(operation: Operation) -> dict[str, Any]:
    body = operation.body
    schema = body_schema(body, partial=operation.partial) if isinstance(body, type) else body
    return {"required": True, "content": {operation.media_type: {"schema": schema}}}
