"""Re-encrypts all sealed columns, of every app, after the vault's keys were rotated.

A sealed column is recognised by the suffix `_sealed` of its name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import models, transaction

from tools_app.secrets import vault


@dataclass(frozen=True)
class Resealed:
    """Result of a rotation. unreadable: secrets that no key opens, as `table/row/column`."""

    resealed: int
    unreadable: tuple[str, ...]


def reseal_all() -> Resealed:
    """Seal every secret with the newest key. A secret that changes meanwhile is skipped: its writer used that key."""
    done, unreadable = 0, []
    for model, column, pk, sealed in _secrets():
        try:
            text = vault.unseal(sealed)
        except vault.SealError:
            unreadable.append(f"{model._meta.db_table}/{pk}/{column}")
            continue
        with transaction.atomic():
            rows: Any = model._default_manager.filter(pk=pk, **{column: sealed})
            done += rows.update(**{column: vault.seal(text)})
    return Resealed(done, tuple(unreadable))


def count_by_old_keys() -> int:
    """Return how many secrets the newest key does not open."""
    return sum(not vault.is_newest(sealed) for _, _, _, sealed in _secrets())


def sealed_columns() -> list[tuple[type[models.Model], str]]:
    return [
        (model, field.attname)
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if field.attname.endswith("_sealed")
    ]


def _secrets() -> Iterator[tuple[type[models.Model], str, Any, str]]:
    for model, column in sealed_columns():
        rows = model._default_manager.exclude(**{column: ""}).order_by("pk").values_list("pk", column)
        for pk, sealed in rows.iterator(chunk_size=500):
            yield model, column, pk, sealed
