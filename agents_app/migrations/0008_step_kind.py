"""Remove `Step.kind` from the state. The column stays, with a database default, so that both releases can insert rows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents_app", "0007_field_names")]

    operations = [
        migrations.AlterField("step", "kind", models.CharField(db_default="think", default="think", max_length=12)),
        migrations.SeparateDatabaseAndState(state_operations=[migrations.RemoveField("step", "kind")]),
    ]
