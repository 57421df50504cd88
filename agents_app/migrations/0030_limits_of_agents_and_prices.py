"""Limits of agents, prices and caps. No column changes: stored values outside of the limits stay, and a change of such a
field is refused with the limit until it keeps to it.
"""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0029_transcription'),
    ]

    operations = [
        migrations.AlterField(
            model_name='agent',
            name='agent_id',
            field=models.SlugField(help_text='Public id, used in the API.', max_length=120, unique=True, validators=[django.core.validators.RegexValidator('^import\\Z', "The agent id 'import' is reserved. Choose another one.", code='reserved_id', inverse_match=True)]),
        ),
        migrations.AlterField(
            model_name='agent',
            name='max_active_seconds',
            field=models.PositiveIntegerField(default=120, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(3600)]),
        ),
        migrations.AlterField(
            model_name='agent',
            name='max_call_seconds',
            field=models.PositiveIntegerField(default=300, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(3600)]),
        ),
        migrations.AlterField(
            model_name='agent',
            name='max_context_tokens',
            field=models.PositiveIntegerField(default=100000, validators=[django.core.validators.MinValueValidator(1000), django.core.validators.MaxValueValidator(10000000)]),
        ),
        migrations.AlterField(
            model_name='agent',
            name='max_idle_seconds',
            field=models.PositiveIntegerField(default=60, help_text="Longest pause of a model's stream.", validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(3600)]),
        ),
        migrations.AlterField(
            model_name='agent',
            name='max_tool_rounds',
            field=models.PositiveIntegerField(default=10, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(100)]),
        ),
        migrations.AlterField(
            model_name='agent',
            name='max_tries',
            field=models.PositiveIntegerField(default=2, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(10)]),
        ),
        migrations.AlterField(
            model_name='agent',
            name='memory_budget_tokens',
            field=models.PositiveIntegerField(db_default=400, default=400, help_text='Limit of remembered facts about the user in each request, in tokens. 0: none.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(20000)]),
        ),
        migrations.AlterField(
            model_name='agent',
            name='output_retries',
            field=models.PositiveIntegerField(db_default=2, default=2, help_text='Limit of corrections of an answer that does not match the schema.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(10)]),
        ),
        migrations.AlterField(
            model_name='agent',
            name='queue_limit',
            field=models.PositiveIntegerField(default=20, help_text='Limit of messages that wait in a busy session.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000)]),
        ),
        migrations.AlterField(
            model_name='agent',
            name='retry_first_seconds',
            field=models.FloatField(default=2.0, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(3600)]),
        ),
        migrations.AlterField(
            model_name='agent',
            name='retry_max_seconds',
            field=models.FloatField(default=30.0, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(3600)]),
        ),
        migrations.AlterField(
            model_name='agent',
            name='system_prompt',
            field=models.TextField(blank=True, default='You are a helpful enterprise AI assistant.'),
        ),
        migrations.AlterField(
            model_name='modelprice',
            name='cached_input_price',
            field=models.FloatField(blank=True, help_text='Per 1,000 input tokens that the server had cached. Empty: as other input.', null=True, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000000)]),
        ),
        migrations.AlterField(
            model_name='modelprice',
            name='input_price',
            field=models.FloatField(help_text='Per 1,000 input tokens: a price per million, divided by 1,000.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000000)]),
        ),
        migrations.AlterField(
            model_name='modelprice',
            name='output_price',
            field=models.FloatField(help_text='Per 1,000 output tokens, which include reasoning.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000000)]),
        ),
        migrations.AlterField(
            model_name='modelprovider',
            name='base_url',
            field=models.CharField(blank=True, help_text='Empty: default of the kind.', max_length=500, validators=[django.core.validators.RegexValidator('^https?://', 'The address must begin with http:// or https://.')]),
        ),
        migrations.AlterField(
            model_name='modelprovider',
            name='input_price',
            field=models.FloatField(default=1.0, help_text='Price per 1,000 input tokens. Leave both at 1 for no price: budgets then count thousands of tokens.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000000)]),
        ),
        migrations.AlterField(
            model_name='modelprovider',
            name='output_price',
            field=models.FloatField(default=1.0, help_text='Price per 1,000 output tokens.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000000)]),
        ),
        migrations.AlterField(
            model_name='prompttemplate',
            name='text',
            field=models.TextField(help_text='Markdown with YAML front matter and tags of Jinja.', validators=[django.core.validators.MaxLengthValidator(200000)]),
        ),
        migrations.AlterField(
            model_name='storednetwork',
            name='definition',
            field=models.TextField(help_text='YAML, see docs/networks.md.', validators=[django.core.validators.MaxLengthValidator(200000)]),
        ),
        migrations.AlterField(
            model_name='usercostcap',
            name='per_day',
            field=models.FloatField(blank=True, help_text='In whole units, in UTC. Empty: KOMAND_USER_COST_PER_DAY. 0: no cap.', null=True, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000000)]),
        ),
        migrations.AlterField(
            model_name='usercostcap',
            name='per_month',
            field=models.FloatField(blank=True, help_text='In whole units, in UTC. Empty: KOMAND_USER_COST_PER_MONTH. 0: no cap.', null=True, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000000)]),
        ),
    ]
