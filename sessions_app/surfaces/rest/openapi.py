"""This surface in the OpenAPI document. Its operations are declared on its views, its components are `objects`."""

from importlib import import_module
from pkgutil import iter_modules

from sessions_app.surfaces.base.openapi.fields import components_of
from sessions_app.surfaces.base.openapi.operations import Description
from sessions_app.surfaces.base.openapi.schemas import COUNT, INTEGER, NULL, TEXT, about, just, record
from sessions_app.surfaces.rest import objects
from sessions_app.surfaces.rest.operations import envelope

_META = record({"code": about(TEXT, "A stable code for programs.")}, open_ended=True)
_ERROR = {
    "success": just(False),
    "data": NULL,
    "error": about(TEXT, "A message for people: what to do."),
    "meta": _META,
}
DESCRIPTION = Description(
    "Komand",
    "Komand's own API: every answer is one envelope, {success, data, error, meta}.",
    "Error",
    {
        "Error": record(_ERROR),
        "Page": record({"total": COUNT, "page": INTEGER, "pageSize": INTEGER}, optional=["total"]),
        **components_of(*(import_module(f"{objects.__name__}.{one.name}") for one in iter_modules(objects.__path__))),
    },
    wrap=envelope,
)
