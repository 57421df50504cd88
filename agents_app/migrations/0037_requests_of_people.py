from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0036_workstream_agents'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='paused_by',
            field=models.CharField(blank=True, db_default='', default='', help_text='Person who paused it; empty: its parent.', max_length=200),
        ),
        migrations.AlterField(
            model_name='runmessage',
            name='kind',
            field=models.CharField(choices=[('task', 'task'), ('message', 'message'), ('person', 'person'), ('directive', 'directive'), ('finish', 'finish'), ('result', 'result'), ('report', 'report'), ('notice', 'notice')], max_length=12),
        ),
    ]
