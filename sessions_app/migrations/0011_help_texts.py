"""Change help texts, in the state alone."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0009_help_texts'),
        ('sessions_app', '0010_field_names'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name='apikey',
            name='prefix',
            field=models.CharField(help_text='First characters after sk-user-, by which the key is found.', max_length=16, unique=True),
        ),
        migrations.AlterField(
            model_name='apikey',
            name='scopes',
            field=models.JSONField(blank=True, default=list, help_text='Empty: all permissions of the user except senders:any.'),
        ),
        migrations.AlterField(
            model_name='apikey',
            name='suffix',
            field=models.CharField(blank=True, help_text='Last characters of the key, by which users recognise it.', max_length=4),
        ),
        migrations.AlterField(
            model_name='attachment',
            name='album_until',
            field=models.DateTimeField(help_text='Time until which further files of the album may arrive.', null=True),
        ),
        migrations.AlterField(
            model_name='attachment',
            name='characters',
            field=models.IntegerField(help_text='Length of the whole text file.', null=True),
        ),
        migrations.AlterField(
            model_name='attachment',
            name='mime_type',
            field=models.CharField(blank=True, help_text='Declared by the sender; detected once stored.', max_length=100),
        ),
        migrations.AlterField(
            model_name='attachment',
            name='path',
            field=models.CharField(blank=True, help_text='Path in the folder `attachments` of the data folder.', max_length=100),
        ),
        migrations.AlterField(
            model_name='attachment',
            name='size_bytes',
            field=models.BigIntegerField(help_text='Declared by the sender; measured once stored.', null=True),
        ),
        migrations.AlterField(
            model_name='attachment',
            name='source',
            field=models.TextField(help_text='Id of the file on the platform, or its URL.'),
        ),
        migrations.AlterField(
            model_name='attachment',
            name='text',
            field=models.TextField(blank=True, help_text='Text of a text file, cut to the part that models receive.'),
        ),
        migrations.AlterField(
            model_name='attachment',
            name='until',
            field=models.DateTimeField(help_text='Time limit of the download. After it, the run starts without the file.'),
        ),
        migrations.AlterField(
            model_name='channelaccount',
            name='access',
            field=models.CharField(choices=[('open', 'open to everyone'), ('allow_list', 'listed senders'), ('paired', 'paired senders')], default='paired', help_text='Senders who may use the account.', max_length=12),
        ),
        migrations.AlterField(
            model_name='channelaccount',
            name='account_id',
            field=models.SlugField(default='default', help_text='Name of the account. Part of the URL.', max_length=120),
        ),
        migrations.AlterField(
            model_name='channelaccount',
            name='agent',
            field=models.ForeignKey(blank=True, help_text='Agent of new sessions. Empty: the default agent.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents_app.agent'),
        ),
        migrations.AlterField(
            model_name='channelaccount',
            name='allowed_senders',
            field=models.JSONField(blank=True, default=list, help_text='Ids of senders or groups, for the mode allow_list.'),
        ),
        migrations.AlterField(
            model_name='channelaccount',
            name='channel',
            field=models.SlugField(help_text='Registered channel, such as telegram or webhook. Part of the URL.', max_length=40),
        ),
        migrations.AlterField(
            model_name='channelaccount',
            name='config',
            field=models.JSONField(blank=True, default=dict, help_text='Fields that docs/channels.md lists for the channel.'),
        ),
        migrations.AlterField(
            model_name='delivery',
            name='approval_id',
            field=models.UUIDField(help_text='Approval whose outcome it does not show yet.', null=True),
        ),
        migrations.AlterField(
            model_name='delivery',
            name='body',
            field=models.TextField(blank=True, help_text='The text in the format of the channel.'),
        ),
        migrations.AlterField(
            model_name='delivery',
            name='buttons',
            field=models.JSONField(default=list, help_text='[[label, action id, style]], for channels with buttons.'),
        ),
        migrations.AlterField(
            model_name='delivery',
            name='filename',
            field=models.CharField(blank=True, help_text='If set, the text is sent as a file of this name.', max_length=200),
        ),
        migrations.AlterField(
            model_name='delivery',
            name='ordering_key',
            field=models.CharField(db_column='lane', help_text='Account and chat. Deliveries with one key are sent one at a time and in order.', max_length=260),
        ),
        migrations.AlterField(
            model_name='delivery',
            name='target',
            field=models.JSONField(default=dict, help_text='Chat, thread and message to reply to, in the terms of the adapter.'),
        ),
        migrations.AlterField(
            model_name='delivery',
            name='text',
            field=models.TextField(blank=True, help_text='Plain text.'),
        ),
        migrations.AlterField(
            model_name='feedback',
            name='target_id',
            field=models.UUIDField(help_text='Id of the session, of the run of an answer, or of the turn of another message.'),
        ),
        migrations.AlterField(
            model_name='inboundmessage',
            name='chat_id',
            field=models.CharField(help_text='Chat of the message, and of the answer.', max_length=200),
        ),
        migrations.AlterField(
            model_name='inboundmessage',
            name='message_id',
            field=models.CharField(help_text='Id of the message on the platform, unique within the account.', max_length=200),
        ),
        migrations.AlterField(
            model_name='inboundmessage',
            name='raw',
            field=models.TextField(help_text='Payload as received, stored for at most seven days.', null=True),
        ),
        migrations.AlterField(
            model_name='inboundmessage',
            name='reason',
            field=models.CharField(blank=True, help_text='Reason why no run answers it. Empty if one does.', max_length=60),
        ),
        migrations.AlterField(
            model_name='pairing',
            name='expires_at',
            field=models.DateTimeField(help_text='Expiry of the code. Empty once it was used.', null=True),
        ),
        migrations.AlterField(
            model_name='pairing',
            name='user',
            field=models.ForeignKey(blank=True, help_text='User of the sender. An operator can decide approval requests in that chat.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AlterField(
            model_name='session',
            name='metadata',
            field=models.JSONField(blank=True, default=dict, help_text='Data of surfaces, by the name of the surface.'),
        ),
        migrations.AlterField(
            model_name='session',
            name='policy',
            field=models.JSONField(blank=True, default=dict, help_text='Restrictions by its owner: {readonly, deniedTools}.'),
        ),
        migrations.AlterField(
            model_name='turn',
            name='attached',
            field=models.TextField(blank=True, help_text='Text of the attachments, for the model.'),
        ),
        migrations.AlterField(
            model_name='turn',
            name='body_digest',
            field=models.CharField(blank=True, help_text='Digest of the message, to detect another message with the same key.', max_length=64),
        ),
        migrations.AlterField(
            model_name='turn',
            name='citations',
            field=models.JSONField(default=list, help_text='Assistant: citations of the text, as `citations.Citation`.'),
        ),
        migrations.AlterField(
            model_name='turn',
            name='error_message',
            field=models.TextField(blank=True, help_text='Reason of the state partial or error, for users.'),
        ),
        migrations.AlterField(
            model_name='turn',
            name='html',
            field=models.TextField(blank=True, help_text='Sanitised HTML of the content, rendered on first view.'),
        ),
        migrations.AlterField(
            model_name='turn',
            name='is_answer',
            field=models.BooleanField(default=False, help_text='Whether it is the answer of its run. At most one per run.'),
        ),
        migrations.AlterField(
            model_name='turn',
            name='tool_call_id',
            field=models.CharField(blank=True, help_text='Tool: id of the call, given by the model.', max_length=200),
        ),
        migrations.AlterField(
            model_name='turn',
            name='tool_call_ids',
            field=models.JSONField(help_text='Ids of the executions that this turn requested or reports.', null=True),
        ),
        migrations.AlterField(
            model_name='turn',
            name='tool_calls',
            field=models.JSONField(default=list, help_text='Assistant: [{id, name, arguments}] as sent by the model.'),
        ),
    ]
