"""Gives each API key in words the scopes that it had by an empty list. The release before works on the result.

A key with `read` keeps its meaning. The keys of staff and of holders of permissions also used these.
"""

from django.db import migrations, models


def name_scopes(apps, schema_editor):
    for key in apps.get_model("sessions_app", "ApiKey").objects.select_related("user").iterator():
        if not {"read", "senders:any"}.issuperset(key.scopes):
            continue  # named before: this migration was undone and runs again
        user, added = key.user, set() if "read" in key.scopes else {"all"}
        if user.is_staff or user.is_superuser or user.user_permissions.exists() or user.groups.exists():
            added.add("rights")
        key.scopes = sorted({*key.scopes, *added})
        key.save(update_fields=["scopes"])


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0012_open_accounts")]

    operations = [
        migrations.AlterField(
            "apikey",
            "scopes",
            models.JSONField(blank=True, default=list, help_text="Surfaces, agents and rights. Empty: none."),
        ),
        migrations.RunPython(name_scopes, migrations.RunPython.noop),
    ]
