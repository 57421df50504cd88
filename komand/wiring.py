"""Registration of what the settings list: tools, providers, channels and surfaces; and of tasks and hooks."""

from importlib import import_module

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from agents_app.providers import registry as providers
from agents_app.runs import hooks
from agents_app.runs.worker import EngineStep
from audit_app import retention
from audit_app.chain import anchors, verification
from audit_app.chain import worker as audit_worker
from komand import audit_webhook
from komand.celery import app
from sessions_app.attachments import fetcher
from sessions_app.attachments import sweeper as files
from sessions_app.channels import accounts
from sessions_app.channels.outbound import prompts, question_prompts, sweeper, worker
from sessions_app.channels.registry import channels
from sessions_app.identity import scopes
from tools_app import catalogue, schema
from tools_app.mcp_client import background as mcp
from tools_app.mcp_client import servers
from tools_app.mcp_client.mcp_tools import McpSource
from tools_app.receipts import evidence
from tools_app.registry import tools
from tools_app.secrets import credentials
from tools_app.skills.skill_tools import SkillSource
from tools_app.types import AnyTool

_DECLARING = ["tools_app.events", "agents_app.events", "sessions_app.events"]
_KEEPING = [
    "audit_app.retention",
    "audit_app.chain.cut",
    "agents_app.retention",
    "sessions_app.retention",
    "sessions_app.attachments.sweeper",
]
_TASKS = ["tools_app.tasks", "agents_app.runs.tasks", "sessions_app.channels.tasks"]


def connect() -> None:
    """Register everything. Called once when Django is ready."""
    for module in [*_DECLARING, *_KEEPING, *_TASKS]:
        import_module(module)
    app.steps["worker"].add(EngineStep)
    for path in settings.KOMAND_TOOLS:
        tools.register(_made(path))
    for kind, path in settings.KOMAND_PROVIDERS.items():
        providers.register(kind, path)
    for path in settings.KOMAND_CHANNELS:
        channels.register(import_string(path))
    credentials.on_change += [providers.credential_changed, accounts.credential_changed, servers.credential_changed]
    catalogue.add_source(McpSource())
    catalogue.add_source(SkillSource())
    hooks.chores += [worker.run, fetcher.run, mcp.run, audit_worker.run]
    hooks.on_claim.append(worker.on_claim)
    hooks.sweeps += [sweeper.sweep, files.sweep]
    hooks.on_ask += [prompts.sweep, question_prompts.sweep]
    hooks.sweeps.append(retention.sweep)
    verification.record_checks += [evidence.find_missing, evidence.find_changed]
    anchors.post = audit_webhook.post_anchor
    if apps.is_installed("rest_framework"):  # not installed in workers
        import_module("komand.login_retention")
        surfaces = import_module("sessions_app.surfaces.base.surface").surfaces
        for path in settings.KOMAND_SURFACES:
            surface = surfaces.register(import_string(path))
            if surface.prefixes:  # pages have none, and no API keys
                scopes.declare_surface(surface.name, surface.prefixes)


def _made(path: str) -> AnyTool:
    """Return a built-in tool. Raises ImproperlyConfigured, naming the path, whatever its module raises on import."""
    try:
        tool: AnyTool = import_string(path)()
        schema.check_spec(tool.spec)
    except Exception as error:
        raise ImproperlyConfigured(f"KOMAND_TOOLS: {path} cannot be used: {error!r}") from error
    return tool
