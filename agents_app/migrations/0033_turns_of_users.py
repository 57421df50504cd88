"""Indexes by which users get their turns, and what a queued run waits for. No row changes."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0032_unset_prices'),
    ]

    operations = [
        migrations.AlterField(
            model_name='run',
            name='waiting_on',
            field=models.CharField(blank=True, choices=[('tools', 'tools'), ('approval', 'approval'), ('input', 'input'), ('children', 'children'), ('parent', 'parent'), ('retry', 'retry'), ('place', 'place')], max_length=12),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(models.Q(('status', 'queued'), ('status', 'running'), ('status', 'waiting'), _connector='OR'), ('owner', None)), fields=['actor', 'ready_at'], name='run_turn'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('owner__isnull', False)), fields=['actor'], name='run_running'),
        ),
    ]
