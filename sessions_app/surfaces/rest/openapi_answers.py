"""The answers of this surface for the OpenAPI document: one envelope, lists and pages."""

from typing import Any

from sessions_app.surfaces.base.openapi.fields import answer_schema
from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import (
    COUNT,
    INTEGER,
    NULL,
    OBJECT,
    TEXT,
    Schema,
    about,
    just,
    list_of,
    nullable,
    record,
    ref,
)
from sessions_app.surfaces.base.serializers import ObjectSerializer
from sessions_app.surfaces.rest.envelope import PageQuery

ERROR = record(
    {
        "success": just(False),
        "data": NULL,
        "error": about(TEXT, "A message for people: what to do."),
        "meta": record({"code": about(TEXT, "A stable code for programs.")}, open_ended=True),
    }
)
PAGE = record({"total": COUNT, "page": INTEGER, "pageSize": INTEGER}, optional=["total"])


def envelope(data: Schema | type[ObjectSerializer], meta: Schema | None = None) -> Schema:
    meta = nullable(OBJECT) if meta is None else meta
    return record({"success": just(True), "data": answer_schema(data), "error": NULL, "meta": meta})


def items_of(item: type[ObjectSerializer] | Schema) -> Schema:
    return list_of(answer_schema(item))


def page_of(summary: str, item: type[ObjectSerializer] | Schema, query: Any = PageQuery, **more: Any) -> Operation:
    page = Answer("One page; `meta` counts the items.", envelope(items_of(item), ref("Page")))
    return Operation(summary, None, query=query, answers={200: page}, **more)
