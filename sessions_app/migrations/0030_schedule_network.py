from django.db import migrations, models


class Migration(migrations.Migration):
    """A schedule may start a network. The release before sends its prompt to the agent instead."""

    dependencies = [("sessions_app", "0025_files_of_answers")]

    operations = [
        migrations.AddField(
            model_name="schedule",
            name="network",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Name of a network that the prompt starts. Empty: the agent answers it.",
                max_length=60,
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="network_context",
            field=models.JSONField(
                blank=True,
                db_default=models.Value({}, models.JSONField()),
                default=dict,
                help_text="Values for the prompts of the network, a JSON object.",
            ),
        ),
    ]
