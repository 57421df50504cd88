"""Migrations that make many tables in a short time."""

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import Migration
from django.db.migrations.state import ProjectState


class NewTables(Migration):
    """A migration of new tables that renders the models of the state once instead of with each operation.

    Its operations see the state after all of them.
    """

    def apply(
        self, project_state: ProjectState, schema_editor: BaseDatabaseSchemaEditor, collect_sql: bool = False
    ) -> ProjectState:
        if collect_sql:
            return super().apply(project_state, schema_editor, collect_sql)
        vars(project_state).pop("apps", None)
        for operation in self.operations:
            operation.state_forwards(self.app_label, project_state)
        for operation in self.operations:
            operation.database_forwards(self.app_label, schema_editor, project_state, project_state)
        return project_state
