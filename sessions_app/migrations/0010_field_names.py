"""Renames fields in the state alone: the columns keep their names, so that the release before works on the same tables."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0009_session_policy")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveIndex("delivery", "delivery_open"),
                migrations.AlterField(
                    "delivery",
                    "lane",
                    models.CharField(
                        db_column="lane",
                        help_text="Account and chat: within it, one at a time and in order.",
                        max_length=260,
                    ),
                ),
                migrations.RenameField("delivery", "lane", "ordering_key"),
                migrations.AddIndex(
                    "delivery",
                    models.Index(
                        condition=models.Q(("status", "pending"), ("status", "sending"), _connector="OR"),
                        fields=["ordering_key", "id"],
                        name="delivery_open",
                    ),
                ),
            ]
        )
    ]
