"""Indexes that keep lists and retention at a steady cost, however many rows there are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents_app", "0002_open_conditions")]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("status", "failed"), ("status", "timed_out"), ("status", "cancelled"), _connector="OR"),
                fields=["status", "id"],
                name="run_trouble",
            ),
        ),
    ]
