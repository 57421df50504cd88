"""Objects of rows, as Django makes them, at a fraction of the cost: Django sets one field after the other."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Model
from django.db.models.base import ModelState
from django.db.models.query import get_related_populators
from django.db.models.query_utils import DeferredAttribute
from django.db.models.signals import post_init, pre_init
from django.db.models.sql.compiler import SQLCompiler


@dataclass(frozen=True)
class RowObjects:
    """The conversion of a row to an object with its annotations and related objects."""

    rows: "_Rows"
    own: slice
    names: list[str]
    others: list[Any]
    annotations: list[tuple[str, int]]

    @classmethod
    def of(cls, compiler: SQLCompiler) -> "RowObjects":
        select, info = compiler.select, compiler.klass_info
        own = slice(info["select_fields"][0], info["select_fields"][-1] + 1)
        others = get_related_populators(info, select, connection.alias)  # type: ignore[call-arg] # a later Django's
        _replace_models(others)
        names = [column[0].target.attname for column in select[own]]
        return cls(_Rows(info["model"]), own, names, others, list((compiler.annotation_col_map or {}).items()))

    def make(self, row: list[Any]) -> Any:
        found = self.rows.from_db(connection.alias, self.names, row[self.own])
        for other in self.others:
            other.populate(row, found)
        for name, place in self.annotations:
            setattr(found, name, row[place])
        return found


def _replace_models(populators: list[Any]) -> None:
    """Let Django's populators of related objects make them by `_Rows`, too."""
    for populator in populators:
        populator.model_cls = _Rows(populator.model_cls)
        _replace_models(populator.related_populators)


class _Rows:
    """Has the method `from_db` of a model. Calls the model's own one if its objects are more than their columns."""

    def __init__(self, model: type[Model]) -> None:
        self._model = model
        self._names = [field.attname for field in model._meta.concrete_fields]
        self._is_plain = _is_plain(model, self._names)

    def from_db(self, alias: str, names: list[str], values: Sequence[Any]) -> Any:
        if not self._is_plain or names != self._names:
            return self._model.from_db(alias, names, values)
        made: Any = self._model.__new__(self._model)
        made.__dict__.update(zip(names, values, strict=True))
        made._state = state = ModelState()
        state.adding, state.db = False, alias
        return made


def _is_plain(model: Any, names: list[str]) -> bool:
    """Return whether an object is made by setting its columns, without code of the model, a field or a signal."""
    is_own = model.__init__ is not Model.__init__ or model.from_db.__func__ is not vars(Model)["from_db"].__func__
    listens = pre_init.has_listeners(model) or post_init.has_listeners(model)
    kinds = (inspect.getattr_static(model, name, None) for name in names)
    return not is_own and not listens and all(isinstance(kind, DeferredAttribute) for kind in kinds)
