from django.apps import AppConfig


class SessionsConfig(AppConfig):
    name = "sessions_app"
    label = "sessions_app"
    verbose_name = "Sessions"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from agents_app import conversation_port  # noqa: PLC0415
        from audit_app.full_text import index  # noqa: PLC0415
        from sessions_app.conversation.history import StoredConversations  # noqa: PLC0415
        from sessions_app.conversation.session_texts import StoredSessionTexts  # noqa: PLC0415
        from sessions_app.identity.linked_memories import LinkedSenders  # noqa: PLC0415
        from sessions_app.models import Session, Turn  # noqa: PLC0415
        from tools_app.policy import readings  # noqa: PLC0415
        from tools_app.storage import memory_holders  # noqa: PLC0415

        conversation_port.register(StoredConversations())
        index.forget_deleted(Session)
        index.forget_deleted(Turn)
        memory_holders.register(LinkedSenders())
        readings.register(StoredSessionTexts())
