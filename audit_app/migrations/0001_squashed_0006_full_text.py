"""All tables of a new database. One with a part of the replaced migrations goes on with the rest of them."""

import audit_app.kernel.ids
from django.db import migrations, models


SQLITE = """
    CREATE VIRTUAL TABLE komand_search_words USING fts5(scope, words, content='', tokenize='ascii', prefix='3')
"""
POSTGRES = (
    "ALTER TABLE komand_search_entry ADD COLUMN vector tsvector",
    "CREATE INDEX search_entry_words ON komand_search_entry USING gin (vector)",
)


def add_index(apps, schema_editor):
    """Add what finds the words."""
    for statement in (SQLITE,) if schema_editor.connection.vendor == "sqlite" else POSTGRES:
        schema_editor.execute(statement)


def remove_index(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("DROP TABLE komand_search_words")


class Migration(migrations.Migration):

    replaces = [
        ('audit_app', '0001_initial'),
        ('audit_app', '0002_growth'),
        ('audit_app', '0003_audit_chain'),
        ('audit_app', '0004_process_folder'),
        ('audit_app', '0005_live_copy'),
        ('audit_app', '0006_full_text'),
    ]

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name='AuditCut',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seal', models.BigIntegerField(help_text='Number of the last removed seal.')),
                ('last', models.BigIntegerField()),
                ('hash', models.CharField(help_text='Hash of the last removed entry.', max_length=64)),
                ('cut_at', models.DateTimeField()),
                ('signature', models.CharField(max_length=64)),
            ],
            options={
                'db_table': 'komand_audit_cut',
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.UUIDField(default=audit_app.kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('action', models.CharField(max_length=64)),
                ('actor', models.CharField(max_length=200)),
                ('agent_id', models.CharField(blank=True, max_length=120)),
                ('session_id', models.UUIDField(blank=True, null=True)),
                ('session_key', models.CharField(blank=True, help_text='Public id of the session at that time.', max_length=512)),
                ('request_id', models.CharField(blank=True, max_length=128)),
                ('at', models.DateTimeField()),
                ('details', models.JSONField(default=dict)),
                ('number', models.BigIntegerField(editable=False, help_text='Position in the chain, from 1. Set by a seal.', null=True)),
                ('hash', models.CharField(db_default='', default='', editable=False, max_length=64)),
            ],
            options={
                'verbose_name': 'audit entry',
                'verbose_name_plural': 'audit log',
                'db_table': 'komand_audit_log',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['session_id', 'id'], name='audit_session'), models.Index(fields=['action', 'id'], name='audit_action'), models.Index(condition=models.Q(('request_id', ''), _negated=True), fields=['request_id', 'id'], name='audit_request'), models.Index(condition=models.Q(('number', None)), fields=['id'], name='audit_unsealed')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('number__isnull', False)), fields=('number',), name='audit_number')],
            },
        ),
        migrations.CreateModel(
            name='AuditSeal',
            fields=[
                ('number', models.BigIntegerField(primary_key=True, serialize=False)),
                ('first', models.BigIntegerField()),
                ('last', models.BigIntegerField()),
                ('hash', models.CharField(help_text='Hash of the last entry.', max_length=64)),
                ('newest_at', models.DateTimeField(help_text='Time of the newest entry.')),
                ('sealed_at', models.DateTimeField()),
                ('signature', models.CharField(max_length=64)),
            ],
            options={
                'db_table': 'komand_audit_seal',
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('session_id', models.UUIDField()),
                ('seq', models.BigIntegerField()),
                ('ts', models.BigIntegerField()),
                ('type', models.CharField(max_length=64)),
                ('run_id', models.UUIDField(null=True)),
                ('parent_run_id', models.UUIDField(null=True)),
                ('workstream', models.CharField(blank=True, max_length=120)),
                ('step', models.IntegerField(null=True)),
                ('actor', models.CharField(max_length=200)),
                ('request_id', models.CharField(blank=True, max_length=128)),
                ('payload', models.JSONField(default=dict)),
            ],
            options={
                'db_table': 'komand_event',
                'ordering': ['id'],
                'indexes': [models.Index(fields=['run_id', 'seq'], name='event_run')],
                'constraints': [models.UniqueConstraint(fields=('session_id', 'seq'), name='event_session_seq')],
            },
        ),
        migrations.CreateModel(
            name='LiveCopy',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('run_id', models.UUIDField()),
                ('fence', models.IntegerField(help_text='Number of the claim. Only that claim writes the row.')),
                ('n', models.IntegerField()),
                ('entry', models.TextField(help_text='The entry of the stream as JSON.')),
                ('stored_at', models.DateTimeField()),
            ],
            options={
                'verbose_name_plural': 'live copies',
                'db_table': 'komand_live_copy',
                'indexes': [models.Index(fields=['stored_at'], name='live_copy_old')],
                'constraints': [models.UniqueConstraint(fields=('run_id', 'fence'), name='live_copy_once_per_claim')],
            },
        ),
        migrations.CreateModel(
            name='ProcessLife',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=64)),
                ('host', models.CharField(max_length=255)),
                ('pid', models.IntegerField()),
                ('lock_key', models.BigIntegerField()),
                ('beat', models.BigIntegerField(default=0)),
                ('started_at', models.DateTimeField(auto_now_add=True)),
                ('folder', models.CharField(db_default='', default='', help_text='Id of the data folder of the process.', max_length=64)),
            ],
            options={
                'verbose_name_plural': 'process lives',
                'db_table': 'komand_process_life',
            },
        ),
        migrations.CreateModel(
            name='SearchEntry',
            fields=[
                ('id', models.BigIntegerField(help_text='Position in the index: higher for newer objects.', primary_key=True, serialize=False)),
                ('object_id', models.UUIDField(unique=True)),
                ('scope', models.CharField(help_text='Digest of the set of objects that are searched together.', max_length=40)),
                ('packed', models.BinaryField(help_text='Compressed words of the object, on SQLite only.', null=True)),
            ],
            options={
                'verbose_name_plural': 'search entries',
                'db_table': 'komand_search_entry',
            },
        ),
        migrations.CreateModel(
            name='SearchProgress',
            fields=[
                ('kind', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('newest', models.UUIDField(help_text='All objects up to this one are indexed, except those below `oldest`.')),
                ('oldest', models.UUIDField(help_text='All objects from this one on are indexed.')),
                ('is_complete', models.BooleanField(default=False, help_text='All older objects are indexed.')),
            ],
            options={
                'verbose_name_plural': 'search progress',
                'db_table': 'komand_search_progress',
            },
        ),
        migrations.CreateModel(
            name='TimelineHead',
            fields=[
                ('session_id', models.UUIDField(primary_key=True, serialize=False)),
                ('seq', models.BigIntegerField()),
                ('ts', models.BigIntegerField(help_text='Milliseconds since 1970, strictly rising within the session.')),
            ],
            options={
                'db_table': 'komand_timeline_head',
            },
        ),
        migrations.RunPython(add_index, remove_index),
    ]
