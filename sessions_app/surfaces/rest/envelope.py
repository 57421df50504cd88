"""The envelope of every answer under /api, {"success", "data", "error", "meta"}, and the pages of lists. Pure."""

from dataclasses import dataclass
from typing import Any

from rest_framework.serializers import IntegerField

from sessions_app.surfaces.base.serializers import CamelCaseSerializer


@dataclass(frozen=True)
class Page:
    """One page of a list. number: from 1."""

    number: int
    size: int

    @property
    def offset(self) -> int:
        return (self.number - 1) * self.size

    def meta(self, total: int) -> dict[str, Any]:
        return {"total": total, "page": self.number, "pageSize": self.size}


DEFAULT_PAGE_SIZE = 50
LARGEST_PAGE_SIZE = 200


class PageQuery(CamelCaseSerializer):
    page = IntegerField(min_value=1, max_value=100_000, default=1)
    page_size = IntegerField(min_value=1, max_value=LARGEST_PAGE_SIZE, default=DEFAULT_PAGE_SIZE)

    @property
    def wanted(self) -> Page:
        return Page(self.validated_data["page"], self.validated_data["page_size"])


def success(data: Any, meta: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"success": True, "data": data, "error": None, "meta": meta}


def failure(message: str, meta: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return an error.

    message: for people.
    meta: the stable `code` and further data.
    """
    return {"success": False, "data": None, "error": message, "meta": meta}
