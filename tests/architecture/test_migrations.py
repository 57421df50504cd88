"""A migration keeps the code of the release before it working, since that code runs while and after it is applied."""

from collections.abc import Iterator
from typing import Any

from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from komand.management.commands.makemigrations import Autodetector

# The last migration of each app of the release before. Move them on with each release.
RELEASED = {"agents_app": "0008", "audit_app": "0002", "sessions_app": "0010", "tools_app": "0009"}
# What may go: (app, migration), once the release before does not use it any more.
REMOVALS: set[tuple[str, str]] = set()

HARMLESS = (
    migrations.CreateModel,
    migrations.AlterModelOptions,
    migrations.AlterModelManagers,
    migrations.AlterModelTableComment,
    migrations.AddIndex,
    migrations.RemoveIndex,
    migrations.RemoveConstraint,
)


def problem_of(operation: Operation, app: str, before: ProjectState, added: set[tuple[str, str, str]]) -> str:
    """Return what the code of the release before could not do any more; empty if nothing.

    before: the models before the operation; added: (app, model, field) of fields that this code does not know; the
    field is `*` for a model.
    """
    match operation:
        case migrations.CreateModel():
            added.add((app, operation.name_lower, "*"))
        case migrations.AddField(field=field):
            added.add((app, operation.model_name_lower, operation.name))
            filled = field.null or field.has_db_default() or field.many_to_many
            return "" if filled or (app, operation.model_name_lower, "*") in added else "insert a row: set db_default"
        case migrations.AlterField(field=field):
            old = before.models[app, operation.model_name_lower].fields[operation.name]
            return "" if _takes_all_of(old, field) else "store what it stored: the column takes less"
        case migrations.AddConstraint(constraint=constraint):
            known = {(app, operation.model_name_lower, name) for name in (*_names(constraint), "*")}
            return "" if known & added else "store what it stored: the constraint is on columns that it writes"
        case migrations.RunPython() | migrations.RunSQL():
            return "" if operation.reversible else "be installed again: there is no way back"
        case migrations.SeparateDatabaseAndState(database_operations=inner):
            return "; ".join(filter(None, (problem_of(one, app, before, added) for one in inner)))
        case _ if not isinstance(operation, HARMLESS):
            return "use what it uses"
    return ""


def _names(constraint: models.BaseConstraint) -> Iterator[str]:
    yield from getattr(constraint, "fields", ())
    condition = getattr(constraint, "condition", None)
    for node in condition.flatten() if condition is not None else ():
        if isinstance(node, models.Q):
            yield from (child[0].partition("__")[0] for child in node.children if isinstance(child, tuple))


def _takes_all_of(old: Any, new: Any) -> bool:
    longer = new.max_length is None or (old.max_length is not None and new.max_length >= old.max_length)
    columns = {field.db_column or field.name for field in (old, new)}
    same = _column_type(old) == _column_type(new) and len(columns) == 1
    return same and longer and (new.null or not old.null) and (old.unique or not new.unique)


def _column_type(field: Any) -> str:
    """Return the type of a field's column. That of a one-to-one field is unique, but no other one."""
    return "ForeignKey" if field.one_to_one else str(field.get_internal_type())


def problems(plan: list[tuple[str, migrations.Migration, ProjectState]]) -> dict[str, str]:
    """Return by migration and operation: what the release before could not do any more."""
    found, added = {}, set()
    for app, migration, state in plan:
        for operation in migration.operations:
            if problem := problem_of(operation, app, state, added):
                found[f"{app}.{migration.name} {operation.describe()}"] = problem
            operation.state_forwards(app, state)
    return found


def test_the_release_before_works_on_the_migrated_schema() -> None:
    loader = MigrationLoader(None, replace_migrations=False)
    assert all(loader.get_migration_by_prefix(app, number) for app, number in RELEASED.items())
    assert set(loader.disk_migrations) >= REMOVALS
    order = [key for leaf in loader.graph.leaf_nodes() for key in loader.graph.forwards_plan(leaf)]
    plan = [
        (app, loader.get_migration(app, name), loader.project_state((app, name), at_end=False))
        for app, name in dict.fromkeys(order)
        if app in RELEASED and name[:4] > RELEASED[app] and (app, name) not in REMOVALS
    ]
    assert len(plan) >= 4
    assert not problems(plan)


def test_squashed_migrations_make_the_models_of_all_that_they_replace() -> None:
    loader = MigrationLoader(None, replace_migrations=False)
    squashed = {key: one for key, one in loader.disk_migrations.items() if one.replaces}
    assert {app for app, _ in squashed} == set(RELEASED)
    for (app, name), migration in squashed.items():
        last = name.split("_squashed_")[1]
        earlier = [key for key in loader.disk_migrations if key[0] == app and key not in squashed and key[1] <= last]
        assert sorted(migration.replaces) == sorted(earlier)
        states = loader.project_state((app, last)), loader.project_state((app, name))
        for state in states:
            state.models = {key: model for key, model in state.models.items() if key[0] == app}
        assert not Autodetector(*states).changes(loader.graph), name


class Example(migrations.Migration):
    operations = [
        migrations.AddField("book", "pages", models.IntegerField(default=0)),
        migrations.AddField("book", "price", models.IntegerField(db_default=0)),
        migrations.AlterField("book", "title", models.CharField(max_length=10)),
        migrations.AlterField("book", "author", models.CharField(max_length=300, null=True)),
        migrations.AddConstraint("book", models.UniqueConstraint(fields=["title"], name="one_title")),
        migrations.AddConstraint("book", models.CheckConstraint(condition=models.Q(price__gte=0), name="price")),
        migrations.RunPython(lambda apps, editor: None),
        migrations.RenameField("book", "title", "name"),
        migrations.RemoveField("book", "name"),
        migrations.DeleteModel("book"),
    ]


def test_what_the_release_before_needs_is_found() -> None:
    state = ProjectState()
    fields = [(name, models.CharField(max_length=200)) for name in ("title", "author")]
    migrations.CreateModel("Book", fields).state_forwards("shop", state)
    found = problems([("shop", Example("0002", "shop"), state)])
    harmless = {operation.describe() for index, operation in enumerate(Example.operations) if index in (1, 3, 5)}
    assert {key.removeprefix("shop.0002 ") for key in found} == {op.describe() for op in Example.operations} - harmless


def test_a_migration_depends_on_those_that_every_release_has() -> None:
    """A squashed migration is new to releases before it: name the last one that it replaces."""
    own = {key: found for key, found in MigrationLoader(None).disk_migrations.items() if key[0] in RELEASED}
    assert not [
        (*key, name)
        for key, migration in own.items()
        for app, name in migration.dependencies
        if not migration.replaces and (app, name) in own and own[app, name].replaces
    ]
