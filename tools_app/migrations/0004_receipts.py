from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tools_app', '0003_mcp_servers'),
    ]

    operations = [
        migrations.AddField(
            model_name='toolexecution',
            name='receipt',
            field=models.CharField(blank=True, help_text='Proves the call; empty while it is open.', max_length=120),
        ),
    ]
