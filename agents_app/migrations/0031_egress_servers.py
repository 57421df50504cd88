"""MCP servers that get data without approval. Agents keep those that they listed, unless they have full autonomy."""

import audit_app.kernel.rules
from django.db import migrations, models
from django.db.models import F


def keep_listed(apps, schema_editor):
    listing = apps.get_model("agents_app", "Agent").objects.filter(mcp_servers_mode="list")
    listing.exclude(autonomy="full").update(egress_servers=F("mcp_servers"))


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0030_limits_of_agents_and_prices'),
    ]

    operations = [
        migrations.AddField(
            model_name='agent',
            name='egress_servers',
            field=audit_app.kernel.rules.TextListField(blank=True, db_default=models.Value([], models.JSONField()), default=list, help_text='Names of MCP servers that get data without approval after a run has read from outside.'),
        ),
        migrations.RunPython(keep_listed, migrations.RunPython.noop),
    ]
