"""Checks answers against the OpenAPI document."""

import re
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

_URI = "urn:komand:openapi"


class Document:
    """One OpenAPI document."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self._registry: Registry[Any] = Registry().with_resource(_URI, DRAFT202012.create_resource(data))
        self._paths = [(re.compile(re.sub(r"\{\w+\}", "(.+)", path)), path) for path in data["paths"]]

    def operations(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return path, method and operation of each."""
        return [
            (path, method, operation)
            for path, item in self.data["paths"].items()
            for method, operation in item.items()
            if method != "parameters"
        ]

    def path_of(self, address: str) -> str:
        """Return the most specific documented path that matches a URL path."""
        fitting = [path for pattern, path in self._paths if pattern.fullmatch(address)]
        return max(fitting, key=lambda path: len(re.sub(r"\{\w+\}", "", path)))

    def resolved(self, found: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in found:
            found = self._registry.resolver(_URI).lookup(_URI + found["$ref"]).contents
        return found

    def check(self, method: str, address: str, status: int, body: Any) -> None:
        """Raise AssertionError or ValidationError unless the operation has this status with this body."""
        path = self.path_of(address.partition("?")[0])
        responses = self.data["paths"][path][method.lower()]["responses"]
        assert str(status) in responses, f"{method} {path} does not document {status}: {body}"
        content = self.resolved(responses[str(status)]).get("content", {})
        schema = content.get("application/json", {}).get("schema")
        if schema is not None:
            self.check_schema(schema, body)

    def check_schema(self, schema: Any, value: Any) -> None:
        schema = {"$ref": _URI + schema["$ref"]} if "$ref" in schema else self._absolute(schema)
        Draft202012Validator(schema, registry=self._registry).validate(value)

    def _absolute(self, schema: Any) -> Any:
        if isinstance(schema, dict):
            return {name: _URI + value if name == "$ref" else self._absolute(value) for name, value in schema.items()}
        return [self._absolute(one) for one in schema] if isinstance(schema, list) else schema
