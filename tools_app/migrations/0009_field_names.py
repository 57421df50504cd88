"""Renames fields in the state alone: the columns keep their names, so that the release before works on the same tables."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tools_app", "0008_growth")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveIndex("toolexecution", "execution_ring"),
                migrations.AlterField(
                    "toolexecution",
                    "ring_at",
                    models.DateTimeField(
                        db_column="ring_at", help_text="While pending: when the sweeper nudges a worker again.", null=True
                    ),
                ),
                migrations.RenameField("toolexecution", "ring_at", "renudge_at"),
                migrations.AddIndex(
                    "toolexecution",
                    models.Index(
                        condition=models.Q(("renudge_at__isnull", False)), fields=["renudge_at"], name="execution_ring"
                    ),
                ),
            ]
        )
    ]
