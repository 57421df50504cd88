"""The tables of an empty database: made once, as they are after all migrations, instead of changed by each.

Django renders the models before and after nearly each operation of a migration, which is the cost of a first start.
"""

from collections.abc import Sequence
from itertools import takewhile

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import Migration, RunPython, RunSQL
from django.db.migrations.operations.base import Operation
from django.db.migrations.operations.fields import FieldOperation
from django.db.migrations.operations.models import IndexOperation, ModelOperation
from django.db.migrations.state import ProjectState

# Their effect on tables follows from the models. `SeparateDatabaseAndState` is not one of them.
_OF_MODELS = (ModelOperation, FieldOperation, IndexOperation)
_OF_ROWS = (RunPython, RunSQL)


def first_ones(plan: Sequence[tuple[Migration, bool]]) -> list[Migration]:
    """Return the migrations, up to the first with another effect on tables than on models."""
    return [migration for migration, _ in takewhile(lambda step: _is_of_models(step[0]), plan)]


def create_tables(state: ProjectState, migrations: Sequence[Migration], editor: BaseDatabaseSchemaEditor) -> None:
    """Create all tables of the migrations, then do in their order what those do by statements or in Python.

    state: the empty one; it becomes that after the migrations, which is what their functions see.
    """
    vars(state).pop("apps", None)  # rendered, it would be rendered again with each operation
    operations = [(one.app_label, operation) for one in migrations for operation in one.operations]
    for app, operation in operations:
        operation.state_forwards(app, state)
    for model in state.apps.get_models():
        if model._meta.can_migrate(editor.connection):
            editor.create_model(model)
    for app, operation in operations:
        if isinstance(operation, _OF_ROWS):
            operation.database_forwards(app, editor, state, state)


def _is_of_models(migration: Migration) -> bool:
    operations: Sequence[Operation] = migration.operations
    return migration.atomic and all(isinstance(operation, (*_OF_MODELS, *_OF_ROWS)) for operation in operations)
