"""Change help texts, in the state alone."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0008_step_kind'),
    ]

    operations = [
        migrations.AlterField(
            model_name='agent',
            name='agent_id',
            field=models.SlugField(help_text='Public id, used in the API.', max_length=120, unique=True),
        ),
        migrations.AlterField(
            model_name='agent',
            name='allowed_hosts',
            field=models.JSONField(blank=True, default=list, help_text='Hosts that tools may connect to. Empty: all.'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='allowed_tools',
            field=models.JSONField(blank=True, default=list, help_text='Patterns of allowed tool calls. Empty: all.'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='always_ask',
            field=models.JSONField(blank=True, default=list, help_text='Patterns of tool calls that always need approval.'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='auto_approve',
            field=models.JSONField(blank=True, default=list, help_text='Patterns of tool calls that need no approval.'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='busy_policy',
            field=models.CharField(choices=[('queue', 'queue'), ('reject', 'reject'), ('interrupt', 'interrupt'), ('steer', 'steer')], default='queue', help_text='Handling of a message to a session that is still busy.', max_length=12),
        ),
        migrations.AlterField(
            model_name='agent',
            name='denied_hosts',
            field=models.JSONField(blank=True, default=list, help_text='Hosts that tools must not connect to.'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='denied_tools',
            field=models.JSONField(blank=True, default=list, help_text='Patterns of tool calls that are always denied.'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='enabled_tools',
            field=models.JSONField(blank=True, help_text='Names of tools. Empty: all registered tools.', null=True),
        ),
        migrations.AlterField(
            model_name='agent',
            name='max_idle_seconds',
            field=models.PositiveIntegerField(default=60, help_text="Longest pause of a model's stream."),
        ),
        migrations.AlterField(
            model_name='agent',
            name='mcp_servers',
            field=models.JSONField(blank=True, default=list, help_text='Names of MCP servers, for the mode list.'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='mcp_servers_mode',
            field=models.CharField(choices=[('none', 'none'), ('inherit', 'inherit'), ('list', 'list')], default='inherit', help_text="MCP servers this agent may use: none, the installation's default, or a list.", max_length=8),
        ),
        migrations.AlterField(
            model_name='agent',
            name='model_id',
            field=models.CharField(blank=True, help_text='Empty: default model of the provider.', max_length=200),
        ),
        migrations.AlterField(
            model_name='agent',
            name='owner_id',
            field=models.BigIntegerField(blank=True, help_text='User who created it.', null=True),
        ),
        migrations.AlterField(
            model_name='agent',
            name='queue_limit',
            field=models.PositiveIntegerField(default=20, help_text='Most messages that may wait in a busy session.'),
        ),
        migrations.AlterField(
            model_name='modelprovider',
            name='base_url',
            field=models.CharField(blank=True, help_text='Empty: default of the kind.', max_length=500),
        ),
        migrations.AlterField(
            model_name='modelprovider',
            name='input_price',
            field=models.FloatField(default=1.0, help_text='Price per 1,000 input tokens, in any unit. Leave both prices at 1 to budget in thousands of tokens.', validators=[django.core.validators.MinValueValidator(0)]),
        ),
        migrations.AlterField(
            model_name='modelprovider',
            name='kind',
            field=models.CharField(help_text='Registered kind of provider, such as openai or demo.', max_length=40),
        ),
        migrations.AlterField(
            model_name='modelprovider',
            name='output_price',
            field=models.FloatField(default=1.0, help_text='Price per 1,000 output tokens.', validators=[django.core.validators.MinValueValidator(0)]),
        ),
        migrations.AlterField(
            model_name='run',
            name='end_stored',
            field=models.BooleanField(db_column='conversation_told', default=False, help_text='Whether the conversation has stored the end of this run.'),
        ),
        migrations.AlterField(
            model_name='run',
            name='options',
            field=models.JSONField(blank=True, default=dict, help_text='Options of its message (types.RunOptions).'),
        ),
        migrations.AlterField(
            model_name='run',
            name='ordinal',
            field=models.IntegerField(help_text='Place in the queue of the conversation.'),
        ),
        migrations.AlterField(
            model_name='run',
            name='owner',
            field=models.UUIDField(help_text='Process that executes it.', null=True),
        ),
        migrations.AlterField(
            model_name='run',
            name='ready_at',
            field=models.DateTimeField(help_text='Time from which it may be claimed. Null: it has an owner, or waits.', null=True),
        ),
        migrations.AlterField(
            model_name='run',
            name='session_policy',
            field=models.JSONField(blank=True, default=dict, help_text='Restrictions of its session when the message was received: {readonly, deniedTools}.'),
        ),
        migrations.AlterField(
            model_name='run',
            name='tries',
            field=models.IntegerField(default=0, help_text='Failed tries of the current model call.'),
        ),
        migrations.AlterField(
            model_name='run',
            name='user_turn_count',
            field=models.IntegerField(db_column='words', default=1, help_text='Number of user turns it answers: more than 1 if steered, 0 for a retry.'),
        ),
        migrations.AlterField(
            model_name='step',
            name='tool_calls',
            field=models.JSONField(default=list, help_text='[{id, name, arguments}] as sent by the model.'),
        ),
        migrations.AlterField(
            model_name='step',
            name='turns_seen',
            field=models.IntegerField(db_column='words_seen', default=1, help_text="Number of the run's user turns that the model received."),
        ),
    ]
