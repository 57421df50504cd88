"""The only module that names concrete parts: it registers the providers, tools and tasks that the settings list."""

from importlib import import_module

from django.conf import settings
from django.utils.module_loading import import_string

from agents_app.providers import registry as providers
from agents_app.runs.worker import EngineStep
from komand.celery import app
from tools_app.registry import tools

_DECLARING = ["tools_app.events", "agents_app.events", "sessions_app.events"]
_TASKS = ["tools_app.tasks", "agents_app.runs.tasks"]


def connect() -> None:
    """Called once when Django is ready."""
    for module in [*_DECLARING, *_TASKS]:
        import_module(module)
    app.steps["worker"].add(EngineStep)
    for path in settings.KOMAND_TOOLS:
        tools.register(import_string(path)())
    for kind, path in settings.KOMAND_PROVIDERS.items():
        providers.register(kind, path)
