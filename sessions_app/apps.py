from django.apps import AppConfig


class SessionsConfig(AppConfig):
    name = "sessions_app"
    label = "sessions_app"
    verbose_name = "Sessions"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from agents_app import conversation_port  # noqa: PLC0415
        from sessions_app.conversation.history import StoredConversations  # noqa: PLC0415
        from sessions_app.conversation.session_texts import StoredSessionTexts  # noqa: PLC0415
        from tools_app.policy import readings  # noqa: PLC0415

        conversation_port.register(StoredConversations())
        readings.register(StoredSessionTexts())
