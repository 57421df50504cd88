"""Messages that a new chat offers. The default agent keeps those that every agent had."""

import audit_app.kernel.rules
from django.db import migrations, models

_STARTERS = [
    "What is 17*23 and what time is it in Tokyo?",
    "What time is it in London and in New York?",
    "What does https://example.com say?",
    "What can you do?",
]


def keep_starters(apps, schema_editor):
    apps.get_model("agents_app", "Agent").objects.filter(agent_id="default").update(starters=_STARTERS)


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0043_price_limits'),
    ]

    operations = [
        migrations.AddField(
            model_name='agent',
            name='starters',
            field=audit_app.kernel.rules.TextListField(blank=True, db_default=models.Value([], models.JSONField()), default=list, help_text='Messages that a new chat with the agent offers as buttons.'),
        ),
        migrations.RunPython(keep_starters, migrations.RunPython.noop),
    ]
