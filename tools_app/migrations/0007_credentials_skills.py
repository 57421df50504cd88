import audit_app.kernel.ids
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tools_app', '0006_gate'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Credential',
            fields=[
                ('id', models.UUIDField(default=audit_app.kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=120)),
                ('value_sealed', models.TextField(editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'db_table': 'komand_credential',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Skill',
            fields=[
                ('id', models.UUIDField(default=audit_app.kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('skill_id', models.CharField(help_text='Public id: lower case, digits, hyphens.', max_length=57, unique=True)),
                ('publisher_id', models.CharField(max_length=120)),
                ('name', models.CharField(max_length=200)),
                ('description', models.TextField(blank=True)),
                ('category', models.CharField(blank=True, max_length=60)),
                ('latest_version', models.CharField(max_length=60)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'db_table': 'komand_skill',
                'ordering': ['skill_id'],
            },
        ),
        migrations.CreateModel(
            name='SkillInstall',
            fields=[
                ('id', models.UUIDField(default=audit_app.kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('agent_id', models.CharField(help_text="The agent's public id.", max_length=120)),
                ('granted', models.JSONField(default=list, help_text='Permissions, as resource:access or resource:access:scope.')),
                ('owner_id', models.BigIntegerField(blank=True, help_text="User whose credentials it uses. Empty: the installation's.", null=True)),
                ('installed_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'db_table': 'komand_skill_install',
                'ordering': ['agent_id', 'skill'],
            },
        ),
        migrations.CreateModel(
            name='SkillVersion',
            fields=[
                ('id', models.UUIDField(default=audit_app.kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('version', models.CharField(max_length=60)),
                ('kind', models.CharField(max_length=12)),
                ('manifest', models.JSONField()),
                ('digest', models.CharField(help_text='Of the manifest as it is: sha256 and 64 hex digits.', max_length=80)),
                ('is_signed', models.BooleanField(help_text='Its signature hash was that digest when it was registered.')),
                ('registered_by', models.CharField(max_length=200)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'db_table': 'komand_skill_version',
                'ordering': ['-id'],
            },
        ),
        migrations.AddField(
            model_name='credential',
            name='owner',
            field=models.ForeignKey(blank=True, help_text="Empty: the installation's, for model providers, channels and servers.", null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='skillinstall',
            name='skill',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='installs', to='tools_app.skill'),
        ),
        migrations.AddField(
            model_name='skillversion',
            name='skill',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='tools_app.skill'),
        ),
        migrations.AddField(
            model_name='skillinstall',
            name='version',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='installs', to='tools_app.skillversion'),
        ),
        migrations.AddConstraint(
            model_name='credential',
            constraint=models.UniqueConstraint(fields=('owner', 'name'), name='credential_name_of_owner'),
        ),
        migrations.AddConstraint(
            model_name='credential',
            constraint=models.UniqueConstraint(condition=models.Q(('owner', None)), fields=('name',), name='credential_name_shared'),
        ),
        migrations.AddConstraint(
            model_name='skillversion',
            constraint=models.UniqueConstraint(fields=('skill', 'version'), name='skill_version_once'),
        ),
        migrations.AddConstraint(
            model_name='skillinstall',
            constraint=models.UniqueConstraint(fields=('agent_id', 'skill'), name='skill_once_per_agent'),
        ),
    ]
