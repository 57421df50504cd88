import audit_app.kernel.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tools_app', '0005_memory_artifacts_questions'),
    ]

    operations = [
        migrations.CreateModel(
            name='Control',
            fields=[
                ('scope', models.CharField(max_length=120, primary_key=True, serialize=False)),
                ('is_stopped', models.BooleanField()),
                ('reason', models.CharField(blank=True, max_length=300)),
                ('changed_by', models.CharField(max_length=200)),
                ('changed_at', models.DateTimeField()),
            ],
            options={
                'verbose_name': 'emergency stop',
                'verbose_name_plural': 'emergency stop',
                'db_table': 'komand_control',
                'ordering': ['scope'],
            },
        ),
        migrations.CreateModel(
            name='Grant',
            fields=[
                ('id', models.UUIDField(default=audit_app.kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('agent_id', models.CharField(max_length=120)),
                ('run_id', models.UUIDField(blank=True, help_text='Only for this run; empty: for every run of the agent.', null=True)),
                ('pattern', models.TextField()),
                ('approval_id', models.UUIDField(help_text='The request in answer to which it was given.', null=True)),
                ('granted_by', models.CharField(max_length=200)),
                ('created_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_by', models.CharField(blank=True, max_length=200)),
            ],
            options={
                'db_table': 'komand_grant',
                'ordering': ['-id'],
                'indexes': [models.Index(condition=models.Q(('revoked_at__isnull', True), ('run_id__isnull', True)), fields=['agent_id'], name='grant_standing'), models.Index(condition=models.Q(('run_id__isnull', False)), fields=['run_id'], name='grant_of_run')],
            },
        ),
        migrations.AddField(
            model_name='approval',
            name='decision',
            field=models.CharField(blank=True, help_text='What the person said.', max_length=12),
        ),
        migrations.AddField(
            model_name='approval',
            name='is_standing',
            field=models.BooleanField(default=True, help_text='Whether it may be allowed for ever.'),
        ),
        migrations.AddField(
            model_name='approval',
            name='pattern',
            field=models.TextField(blank=True, help_text='What would be allowed for ever.'),
        ),
        migrations.AddField(
            model_name='approval',
            name='run_pattern',
            field=models.TextField(blank=True, help_text='What would be allowed for the rest of the run.'),
        ),
        migrations.AddField(
            model_name='toolexecution',
            name='charged_at',
            field=models.DateTimeField(help_text="When it was counted against its agent's hourly budget.", null=True),
        ),
        migrations.AddIndex(
            model_name='toolexecution',
            index=models.Index(condition=models.Q(('charged_at__isnull', False)), fields=['agent_id', 'charged_at'], name='execution_charged'),
        ),
    ]
