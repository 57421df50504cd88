"""Renames fields in the state alone: the columns keep their names, so that the release before works on the same tables."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents_app", "0006_run_options")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveIndex("run", "run_untold"),
                migrations.AlterField(
                    "run",
                    "words",
                    models.IntegerField(
                        db_column="words", default=1, help_text="User turns it answers: 1, more when steered, 0 for a retry."
                    ),
                ),
                migrations.RenameField("run", "words", "user_turn_count"),
                migrations.AlterField(
                    "run",
                    "conversation_told",
                    models.BooleanField(
                        db_column="conversation_told",
                        default=False,
                        help_text="The conversation has stored this run's end.",
                    ),
                ),
                migrations.RenameField("run", "conversation_told", "end_stored"),
                migrations.AlterField(
                    "step",
                    "words_seen",
                    models.IntegerField(
                        db_column="words_seen",
                        default=1,
                        help_text="How many of the run's user turns the model was shown.",
                    ),
                ),
                migrations.RenameField("step", "words_seen", "turns_seen"),
                migrations.AddIndex(
                    "run",
                    models.Index(
                        condition=models.Q(("end_stored", False), ("ended_at__isnull", False)),
                        fields=["ended_at"],
                        name="run_untold",
                    ),
                ),
            ]
        )
    ]
