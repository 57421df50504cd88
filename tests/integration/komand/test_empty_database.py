"""A new database gets its tables at once: the cost of a first start does not grow with the number of migrations.

`test_migrations.py` compares the schema with that of the migrations, applied one after the other, on both databases.
"""

import pytest
from django.db import connection, migrations, models
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor

from komand.empty_database import first_ones


@pytest.mark.django_db
def test_all_tables_are_created_at_once() -> None:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes(), clean_start=True)
    assert len(plan) > 30
    assert first_ones(plan) == [migration for migration, _ in plan]


def test_migrations_from_one_that_changes_tables_beside_the_models_are_applied_one_by_one() -> None:
    kept = migrations.SeparateDatabaseAndState(state_operations=[migrations.RemoveField("book", "pages")])
    plan = [
        step(migrations.CreateModel("Book", [("pages", models.IntegerField())]), migrations.RunSQL("SELECT 1")),
        step(kept),
        step(migrations.AddField("book", "price", models.IntegerField(null=True))),
    ]
    assert first_ones(plan) == [plan[0][0]]


def step(*operations: migrations.operations.base.Operation) -> tuple[Migration, bool]:
    migration = Migration("0001", "shop")
    migration.operations = list(operations)
    return migration, False
