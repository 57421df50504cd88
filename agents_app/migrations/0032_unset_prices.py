"""Prices of a provider that are not set are null. Two prices of 1 stand for none, as before: no row changes."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0031_egress_servers'),
    ]

    operations = [
        migrations.AlterField(
            model_name='modelprovider',
            name='input_price',
            field=models.FloatField(blank=True, help_text='Price per 1,000 input tokens. Leave both empty for no price: calls are in no budget and no cap then.', null=True, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000000)]),
        ),
        migrations.AlterField(
            model_name='modelprovider',
            name='output_price',
            field=models.FloatField(blank=True, help_text='Price per 1,000 output tokens.', null=True, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000000)]),
        ),
    ]
