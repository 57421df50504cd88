from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('audit_app', '0006_full_text'),
    ]

    operations = [
        migrations.AlterField(
            model_name='processlife',
            name='folder',
            field=models.CharField(db_default='', default='', help_text='Written by 0.3 alone.', max_length=64),
        ),
        migrations.AddField(
            model_name='processlife',
            name='has_file',
            field=models.BooleanField(db_default=False, default=False, help_text='Its file is in `hosts` of its data folder.'),
        ),
    ]
