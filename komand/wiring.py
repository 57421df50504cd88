"""The only module that names concrete parts: it registers the providers, tools and tasks that the settings list."""

from importlib import import_module

from django.conf import settings
from django.utils.module_loading import import_string

from agents_app.providers import registry as providers
from agents_app.runs import hooks
from agents_app.runs.worker import EngineStep
from komand.celery import app
from sessions_app.channels.registry import channels
from sessions_app.delivery import background, sweeping
from tools_app.registry import tools

_DECLARING = ["tools_app.events", "agents_app.events", "sessions_app.events"]
_TASKS = ["tools_app.tasks", "agents_app.runs.tasks", "sessions_app.tasks"]


def connect() -> None:
    """Called once when Django is ready."""
    for module in [*_DECLARING, *_TASKS]:
        import_module(module)
    app.steps["worker"].add(EngineStep)
    for path in settings.KOMAND_TOOLS:
        tools.register(import_string(path)())
    for kind, path in settings.KOMAND_PROVIDERS.items():
        providers.register(kind, path)
    for path in settings.KOMAND_CHANNELS:
        channels.register(import_string(path))
    hooks.chores.append(background.run)
    hooks.on_claim.append(background.on_claim)
    hooks.sweeps.append(sweeping.sweep)
