"""Registration of what the settings list: tools, providers, channels and surfaces; and of tasks and hooks."""

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from agents_app.providers import registry as providers
from agents_app.runs import claims, hooks, question_waits
from agents_app.runs.hooks import Sweep
from agents_app.runs.worker import EngineStep
from audit_app import retention
from audit_app.chain import anchors, verification
from audit_app.chain import worker as audit_worker
from komand import audit_webhook, connections
from komand.celery import app
from sessions_app.approvals import decisions
from sessions_app.attachments import sweeper as files
from sessions_app.channels import accounts
from sessions_app.channels.inbound import file_fetcher, pairing_codes
from sessions_app.channels.outbound import outbox, prompts, question_prompts, sweeper, worker
from sessions_app.conversation import delivery_port, message_index, report_runs
from sessions_app.hot_queries import LIST_CHANGED_PUSHES
from sessions_app.identity import scopes
from sessions_app.platforms.adapters.task_push import TaskPushes
from sessions_app.platforms.base import ChannelAdapter
from sessions_app.platforms.registry import channels, own_senders
from sessions_app.push import notices, notifier
from sessions_app.schedules import starter
from tools_app import catalogue, run_tools, schema
from tools_app.executions import call_questions
from tools_app.mcp_client import background as mcp
from tools_app.mcp_client import servers
from tools_app.mcp_client.mcp_tools import McpSource
from tools_app.receipts import evidence
from tools_app.registry import tools
from tools_app.secrets import credentials
from tools_app.skills.skill_tools import SkillSource
from tools_app.storage import memories
from tools_app.types import AnyTool

_DECLARING = ["tools_app.events", "agents_app.events", "sessions_app.events"]
_KEEPING = [
    "audit_app.retention",
    "audit_app.chain.cut",
    "agents_app.retention",
    "sessions_app.retention",
    "sessions_app.attachments.sweeper",
]
# Entry points by which installed packages add channels.
_CHANNELS_OF_PACKAGES = "komand.channels"
_TASKS = ["tools_app.tasks", "agents_app.runs.tasks", "sessions_app.channels.tasks", "sessions_app.push.tasks"]


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
    for entry in entry_points(group=_CHANNELS_OF_PACKAGES):
        channels.register(channel_of_package(entry))
    own_senders.register(TaskPushes)
    credentials.on_change += [providers.credential_changed, accounts.credential_changed, servers.credential_changed]
    delivery_port.register(outbox)
    decisions.on_decided.append(prompts.close)
    catalogue.add_source(McpSource())
    catalogue.add_source(SkillSource())
    run_tools.register(claims.list_hidden)
    call_questions.let_run_ask = question_waits.begin
    hooks.chores += [worker.run, file_fetcher.run, starter.run, mcp.run, audit_worker.run, connections.run]
    hooks.chores.append(notifier.run)
    hooks.sweeps += [Sweep(sweeper.sweep, sweeper.SWEPT), Sweep(files.sweep, files.SWEPT)]
    hooks.on_ask += [prompts.sweep, question_prompts.sweep]
    hooks.sweeps += [Sweep(retention.sweep), Sweep(memories.sweep), Sweep(_push_tasks, (LIST_CHANGED_PUSHES,))]
    report_runs.may_be_reached.append(pairing_codes.may_be_reached)
    hooks.sweeps.append(Sweep(lambda _: report_runs.sweep(), report_runs.SWEPT))
    hooks.sweeps.append(Sweep(lambda _: notices.sweep(), notices.SWEPT))
    hooks.sweeps.append(Sweep(message_index.sweep, message_index.SWEPT, message_index.swept_values))
    verification.record_checks += [evidence.find_missing, evidence.find_changed]
    anchors.post = audit_webhook.post_anchor
    if apps.is_installed("rest_framework"):  # not installed in workers
        import_module("komand.retention")
        surfaces = import_module("sessions_app.surfaces.base.surface").surfaces
        for path in settings.KOMAND_SURFACES:
            surface = surfaces.register(import_string(path))
            if surface.prefixes:  # pages have none, and no API keys
                scopes.declare_surface(surface.name, surface.title, surface.prefixes)


def _push_tasks(_: object) -> None:
    import_module("sessions_app.surfaces.a2a.push_notifications").sweep()  # loaded by workers at the first one


def channel_of_package(entry: EntryPoint) -> type[ChannelAdapter]:
    """Return the adapter of an installed package. Raises ImproperlyConfigured, naming the package."""
    package = entry.dist.name if entry.dist else "a package"
    try:
        adapter = entry.load()
        if not issubclass(adapter, ChannelAdapter):
            raise TypeError("it is not a ChannelAdapter")
        if adapter.slug in channels.names():
            raise ValueError(f"the channel {adapter.slug} exists already")
    except Exception as error:
        problem = f"the channel {entry.value} of {package} cannot be used: {error!r}; repair or uninstall the package"
        raise ImproperlyConfigured(problem) from error
    found: type[ChannelAdapter] = adapter
    return found


def _made(path: str) -> AnyTool:
    """Return a built-in tool. Raises ImproperlyConfigured, naming the path, whatever its module raises on import."""
    try:
        tool: AnyTool = import_string(path)()
        schema.check_spec(tool.spec)
    except Exception as error:
        raise ImproperlyConfigured(f"KOMAND_TOOLS: {path} cannot be used: {error!r}") from error
    return tool
