from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents_app", "0039_reserved_tokens"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="progress_at",
            field=models.DateTimeField(
                help_text="Time from which its progress starts a run. Null: none.", null=True
            ),
        ),
    ]
