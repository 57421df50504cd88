"""The objects of answers."""

from rest_framework import serializers

from sessions_app.surfaces.base.serializers import ObjectSerializer, Timestamp


class WebChatOpenedOut(ObjectSerializer):
    token = serializers.CharField()
    conversation_id = serializers.CharField()
    visitor_id = serializers.CharField()
    expires_at = Timestamp()


class WebChatTicketOut(ObjectSerializer):
    ticket = serializers.CharField()
    expires_in = serializers.IntegerField(help_text="Lifetime in seconds.")


class WebChatNoticeOut(ObjectSerializer):
    markdown = serializers.CharField()
    html = serializers.CharField(help_text="The text as sanitised HTML.")


class WebChatUploadOut(ObjectSerializer):
    upload_id = serializers.UUIDField(source="id")
    filename = serializers.CharField()
    mime_type = serializers.CharField()
    size_bytes = serializers.IntegerField()
