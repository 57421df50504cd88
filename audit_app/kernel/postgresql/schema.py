"""Foreign keys of tables in use: added without reading the table, and validated after the migration.

A foreign key locks its table and the one that it refers to against all writers. Without NOT VALID they wait until
every row has been compared. Rows that are written from then on are checked in either case.
"""

from typing import Any

from django.db.backends.ddl_references import Statement
from django.db.backends.postgresql.schema import DatabaseSchemaEditor
from django.db.models import Model


class SchemaEditor(DatabaseSchemaEditor):
    """Adds foreign keys with NOT VALID, except those of tables that it has created, which are empty."""

    sql_create_column_inline_fk: Any = None  # a constraint of a new column cannot be NOT VALID

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._created: set[str] = set()

    def create_model(self, model: type[Model]) -> None:
        self._created.add(model._meta.db_table)
        super().create_model(model)

    def _create_fk_sql(self, model: type[Model], field: Any, suffix: str) -> Statement:
        statement: Statement = super()._create_fk_sql(model, field, suffix)  # type: ignore[misc]
        if model._meta.db_table not in self._created:
            # Checks of rows that the migration itself has written may wait for the commit; ALTER TABLE refuses that.
            statement.template = f"SET CONSTRAINTS ALL IMMEDIATE; {statement.template} NOT VALID"
        return statement
