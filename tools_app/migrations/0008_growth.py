"""Indexes that keep lists and retention at a steady cost, however many rows there are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tools_app", "0007_credentials_skills")]

    operations = [
        migrations.AddIndex(
            model_name="toolexecution",
            index=models.Index(
                condition=models.Q(("status", "Failed"), ("status", "TimedOut"), ("status", "Cancelled"), ("status", "Unknown"), _connector="OR"),
                fields=["status", "id"],
                name="execution_trouble",
            ),
        ),
    ]
