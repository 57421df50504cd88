from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0003_growth'),
    ]

    operations = [
        migrations.AddField(
            model_name='agent',
            name='mcp_servers',
            field=models.JSONField(blank=True, default=list, help_text='Names of MCP servers, when they are a list.'),
        ),
        migrations.AddField(
            model_name='agent',
            name='mcp_servers_mode',
            field=models.CharField(choices=[('none', 'none'), ('inherit', 'inherit'), ('list', 'list')], default='inherit', help_text='Whose tools it has: as the installation says, or own.', max_length=8),
        ),
    ]
