from django.apps import AppConfig


class ToolsConfig(AppConfig):
    name = "tools_app"
    verbose_name = "Tools"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from audit_app.full_text import index  # noqa: PLC0415
        from tools_app.models import Memory  # noqa: PLC0415

        index.forget_deleted(Memory)
