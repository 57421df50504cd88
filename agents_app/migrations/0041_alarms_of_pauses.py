from datetime import timedelta

from django.db import migrations
from django.db.models.functions import Now


def set_alarms(apps, schema_editor):
    """Let workstreams that were paused before pauses had an end be paused for a day from now on."""
    paused = apps.get_model("agents_app", "Run").objects.filter(status="waiting", waiting_on="parent", is_paused=True)
    paused.filter(alarm_at=None).update(alarm_at=Now() + timedelta(days=1))


class Migration(migrations.Migration):
    dependencies = [
        ("agents_app", "0040_progress_of_children"),
    ]

    operations = [migrations.RunPython(set_alarms, migrations.RunPython.noop, elidable=True)]
