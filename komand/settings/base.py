"""Settings of every process, and every value of the installation's own (`KOMAND_…`), the same in all.

Workers use them unchanged (worker.py); the web process adds what Django needs for pages (web.py).
"""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from kombu import Exchange, Queue

from komand import __version__, data_folder
from komand.settings import env, file_storage, logging_config

BASE_DIR = Path(__file__).resolve().parents[2]
DATA_DIR = env.data_dir()
# Every process loads the settings before it opens a file.
data_folder.restrict_new_files()

DEBUG = env.flag("KOMAND_DEBUG")
SECRET_KEY = env.secret_file("django.key", "KOMAND_SECRET_KEY")
ALLOWED_HOSTS = env.listing("KOMAND_ALLOWED_HOSTS", ",".join(env.own_hosts()))
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "audit_app",
    "tools_app",
    "agents_app",
    "sessions_app",
    "komand",
]

if _database_url := env.database_url():
    try:
        DATABASES = {"default": environ.Env.db_url_config(_database_url)}
    except ValueError:  # which would show a piece of the password
        problem = "cannot be read: percent-encode what is special in its password (/ is %2F), and check the port"
        raise env.BadSetting("DATABASE_URL", problem) from None
    DATABASES["default"]["ENGINE"] = "audit_app.kernel.postgresql"
    DATABASES["default"]["OPTIONS"] = env.POSTGRESQL_LIMITS | DATABASES["default"].get("OPTIONS", {})
    DATABASES["default"]["CONN_MAX_AGE"] = 60
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
else:
    DATABASES = {
        "default": {
            "ENGINE": "audit_app.kernel.sqlite",
            "NAME": str(DATA_DIR / "komand.sqlite3"),
            "CONN_MAX_AGE": None,
            "OPTIONS": {
                "timeout": 30,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
            },
        }
    }

# The bucket that has the files of messages and agents; empty: the data folder has them.
KOMAND_S3_BUCKET = env.text("KOMAND_S3_BUCKET")
STORAGES = {"files": file_storage.configuration(KOMAND_S3_BUCKET)}

KOMAND_REDIS_URL = env.redis_url()
KOMAND_REDIS_PREFIX = env.text("KOMAND_REDIS_PREFIX", "komand:")

CELERY: dict[str, Any] = {
    "broker_url": env.broker_url(),
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,  # a worker waits for its broker as long as it takes
    "broker_channel_error_retry": True,  # also if it answers with an error: READONLY, MISCONF, UNBLOCKED
    "broker_transport_options": {
        "socket_timeout": 10,
        "socket_connect_timeout": 2,
        "retry_on_timeout": True,
        # Do not retry a nudge: the sweeper sends it again. kombu's default retries would block the thread for
        # seconds.
        "max_retries": 1,
        "interval_start": 0,
        "interval_step": 0,
        "global_keyprefix": KOMAND_REDIS_PREFIX,
        "visibility_timeout": 3600,
    },
    "task_ignore_result": True,
    "task_acks_late": False,
    "worker_prefetch_multiplier": 1,
    "task_serializer": "json",
    "accept_content": ["json"],
    "task_default_queue": "runs",
    "task_queues": [
        # A lost nudge is sent again by the sweeper: acknowledging each one costs more than handling it.
        Queue("runs", Exchange("runs"), "runs", no_ack=True),
        Queue("tools", Exchange("tools"), "tools"),
    ],
    "worker_hijack_root_logger": False,
    "worker_send_task_events": False,
}

# The address under which people and platforms reach the installation.
KOMAND_PUBLIC_URL = env.text("KOMAND_PUBLIC_URL").rstrip("/")
_public = urlsplit(KOMAND_PUBLIC_URL)
if KOMAND_PUBLIC_URL and not (_public.scheme in ("http", "https") and _public.hostname):
    raise env.BadSetting("KOMAND_PUBLIC_URL", f"must look like https://komand.example.com, not {KOMAND_PUBLIC_URL!r}")
# Addresses for reports about security, which /.well-known/security.txt lists.
KOMAND_SECURITY_CONTACT = env.listing("KOMAND_SECURITY_CONTACT")
if not all(re.fullmatch(r"(https://|mailto:|tel:)[!-~]+", contact) for contact in KOMAND_SECURITY_CONTACT):
    raise env.BadSetting(
        "KOMAND_SECURITY_CONTACT", "must look like mailto:security@example.com or https://example.com/report"
    )
KOMAND_TRUSTED_PROXIES = env.listing("KOMAND_TRUSTED_PROXIES")
KOMAND_CORS_ORIGINS = env.listing("KOMAND_CORS_ORIGINS")
# The addresses of the SignalR hub.
KOMAND_HUB_PATHS = [path.strip("/") for path in env.listing("KOMAND_HUB_PATHS", "/hubs/chat,/hubs/webchat,/chathub")]
# How long a request of the OpenAI protocol may wait for its answer: as long as its clients do.
KOMAND_OPENAI_WAIT_SECONDS = env.integer("KOMAND_OPENAI_WAIT_SECONDS", 600, least=1)
# How long /v1/agent/ask and /v1/agent/extract may work on their answer.
KOMAND_ASK_SECONDS = env.integer("KOMAND_ASK_SECONDS", 300, least=1)
# How long POST /api/webchat/message waits for an answer by default, and at most when the request says how long.
KOMAND_WAIT_SECONDS = env.integer("KOMAND_WAIT_SECONDS", 30, least=1)
KOMAND_LONGEST_WAIT_SECONDS = env.integer("KOMAND_LONGEST_WAIT_SECONDS", 300, least=1)
KOMAND_JWT_KEY = env.secret_file("jwt.key", "KOMAND_JWT_KEY")
KOMAND_JWT_ISSUER = env.text("KOMAND_JWT_ISSUER", "komand.ai")
KOMAND_JWT_AUDIENCE = env.text("KOMAND_JWT_AUDIENCE", "komand.ai")
KOMAND_JWT_MINUTES = env.integer("KOMAND_JWT_MINUTES", 60, least=1)
KOMAND_REFRESH_DAYS = env.integer("KOMAND_REFRESH_DAYS", 7, least=1)
KOMAND_API_KEY_DAYS = env.integer("KOMAND_API_KEY_DAYS", 90, least=0)
KOMAND_API_LIMIT, KOMAND_API_WINDOW_SECONDS = env.rate("KOMAND_RATE_API", "100/60")
KOMAND_CHAT_LIMIT, KOMAND_CHAT_WINDOW_SECONDS = env.rate("KOMAND_RATE_CHAT", "30/60")
KOMAND_LOGIN_LIMIT, KOMAND_LOGIN_WINDOW_SECONDS = env.rate("KOMAND_RATE_LOGIN", "20/60")
# Conversations that visitors of sites open: from one address, and in one account.
KOMAND_VISITOR_LIMIT, KOMAND_VISITOR_WINDOW_SECONDS = env.rate("KOMAND_RATE_VISITOR", "20/60")
KOMAND_VISITORS_LIMIT, KOMAND_VISITORS_WINDOW_SECONDS = env.rate("KOMAND_RATE_VISITORS", "600/60")
# Mails with their conversation that visitors ask for: one visitor, and to one address; of an account 20 times as many.
KOMAND_TRANSCRIPT_LIMIT, KOMAND_TRANSCRIPT_WINDOW_SECONDS = env.rate("KOMAND_RATE_TRANSCRIPT", "3/3600")
KOMAND_NETWORK_LIMIT, KOMAND_NETWORK_WINDOW_SECONDS = env.rate("KOMAND_RATE_LOGIN_NETWORK", "50/300")
# How long a client may take for the headers of a request, and for its body.
KOMAND_HEADER_SECONDS = env.integer("KOMAND_HEADER_SECONDS", 10, least=1)
KOMAND_BODY_SECONDS = env.integer("KOMAND_BODY_SECONDS", 300, least=1)
KOMAND_MAX_BODY_BYTES = env.integer("KOMAND_MAX_BODY_BYTES", 1_000_000, least=1000)
# Login by an OpenID Connect provider, if its issuer is set.
KOMAND_OIDC_ISSUER = env.text("KOMAND_OIDC_ISSUER").rstrip("/")
KOMAND_OIDC_CLIENT_ID = env.text("KOMAND_OIDC_CLIENT_ID")
KOMAND_OIDC_CLIENT_SECRET = env.text("KOMAND_OIDC_CLIENT_SECRET")
KOMAND_OIDC_NAME = env.text("KOMAND_OIDC_NAME", "your organization")
KOMAND_OIDC_SCOPES = env.text("KOMAND_OIDC_SCOPES", "openid email profile")
KOMAND_OIDC_GROUPS_CLAIM = env.text("KOMAND_OIDC_GROUPS_CLAIM", "groups")
KOMAND_OIDC_ROLES = env.pairs("KOMAND_OIDC_ROLES")
KOMAND_OIDC_STAFF_GROUPS = env.listing("KOMAND_OIDC_STAFF_GROUPS")
KOMAND_OIDC_ALLOWED_GROUPS = env.listing("KOMAND_OIDC_ALLOWED_GROUPS")
KOMAND_OIDC_MATCH_EMAIL = env.flag("KOMAND_OIDC_MATCH_EMAIL")
KOMAND_OIDC_HOURS = env.integer("KOMAND_OIDC_HOURS", 12, least=1)
# TOTP: whether staff may, or must, have it. `off` asks nobody.
KOMAND_STAFF_SECOND_FACTOR = env.choice("KOMAND_STAFF_SECOND_FACTOR", "optional", ("off", "optional", "required"))

# What the installation may do. Units are in the names.
KOMAND_VAULT_KEYS = env.secret_file("vault.key", "KOMAND_VAULT_KEYS")
KOMAND_RECEIPT_KEYS = env.secret_file("receipts.key", "KOMAND_RECEIPT_KEYS")
KOMAND_PUSH_KEY = env.secret_file("push.key", "KOMAND_PUSH_KEY")
KOMAND_TOOL_MAX_MINUTES = env.integer("KOMAND_TOOL_MAX_MINUTES", 30, least=1)
KOMAND_APPROVAL_MINUTES = env.integer("KOMAND_APPROVAL_MINUTES", 1440, least=1)
KOMAND_APPROVERS = env.choice("KOMAND_APPROVERS", "operators", ("operators", "owners"))
# Messages of one sender of a channel, and the time in which short ones of a person are one message.
KOMAND_SENDER_LIMIT, KOMAND_SENDER_WINDOW_SECONDS = env.rate("KOMAND_RATE_SENDER", "20/60")
KOMAND_BURST_MS = env.integer("KOMAND_BURST_MS", 700, least=0)
# Messages a day of one sender to a channel account that is open to everyone.
KOMAND_OPEN_MESSAGES_PER_DAY = env.integer("KOMAND_OPEN_MESSAGES_PER_DAY", 50, least=0)
# A login that is older has to be repeated for what is most dangerous; 0: never.
KOMAND_FRESH_LOGIN_MINUTES = env.integer("KOMAND_FRESH_LOGIN_MINUTES", 10)
KOMAND_DRAIN_SECONDS = env.integer("KOMAND_DRAIN_SECONDS", 25)
KOMAND_RUN_SLOTS = env.integer("KOMAND_RUN_SLOTS", 200, least=1)
# Of one message: the run that answers it, and all workstreams and networks below it.
KOMAND_MAX_RUNS_PER_MESSAGE = env.integer("KOMAND_MAX_RUNS_PER_MESSAGE", 200, least=1)
# Of one user at once; further ones wait. 0: no limit.
KOMAND_MAX_RUNNING_PER_USER = env.integer("KOMAND_MAX_RUNNING_PER_USER", 30, least=0)
# Earlier messages are summarised if a request has more of an agent's context, or more of them; 0: never.
KOMAND_COMPACT_AT_PERCENT = env.integer("KOMAND_COMPACT_AT_PERCENT", 80, least=0)
KOMAND_COMPACT_AT_TURNS = env.integer("KOMAND_COMPACT_AT_TURNS", 300, least=10)
# Of the text of one model call, and of its reasoning: the call is stopped there, and what came is kept as partial.
KOMAND_MAX_ANSWER_CHARACTERS = env.integer("KOMAND_MAX_ANSWER_CHARACTERS", 200_000, least=1000)
# The folder of prompt templates, besides those in the database.
KOMAND_PROMPTS_DIR = env.text("KOMAND_PROMPTS_DIR") or str(DATA_DIR / "prompts")
# The name of the unit of prices and costs, such as EUR. Empty: no name is shown.
KOMAND_CURRENCY = env.text("KOMAND_CURRENCY")
# Caps of costs per day and month (UTC) of the installation and of each user; 0: none. An alert comes at the percentage.
KOMAND_COST_PER_DAY = env.integer("KOMAND_COST_PER_DAY", 0)
KOMAND_COST_PER_MONTH = env.integer("KOMAND_COST_PER_MONTH", 0)
KOMAND_USER_COST_PER_DAY = env.integer("KOMAND_USER_COST_PER_DAY", 0)
KOMAND_USER_COST_PER_MONTH = env.integer("KOMAND_USER_COST_PER_MONTH", 0)
KOMAND_COST_ALERT_PERCENT = env.integer("KOMAND_COST_ALERT_PERCENT", 80, least=1)
# Tools of agents that do not choose their own: `inherit` (all), `none`, or names.
KOMAND_AGENT_TOOLS = env.listing("KOMAND_AGENT_TOOLS", "inherit")
# Of the tools in one model call. If an agent has more, the others are found by `find_tools`.
KOMAND_TOOL_TOKENS = env.integer("KOMAND_TOOL_TOKENS", 4000, least=0)
KOMAND_AGENT_MCP_SERVERS = env.listing("KOMAND_AGENT_MCP_SERVERS", "inherit")
KOMAND_LOOP_TOOL_SLOTS = env.integer("KOMAND_LOOP_TOOL_SLOTS", 50, least=1)
# Items of one `batch`, at most 1,000, and how many of them run concurrently.
KOMAND_BATCH_ITEMS = env.integer("KOMAND_BATCH_ITEMS", 100, least=1)
KOMAND_BATCH_PARALLEL = env.integer("KOMAND_BATCH_PARALLEL", 4, least=1)
KOMAND_INPUT_MINUTES = env.integer("KOMAND_INPUT_MINUTES", 1440, least=1)
# How long a call of a client's tool waits for the output. Clients often leave calls open, which is no failure.
KOMAND_CLIENT_TOOL_MINUTES = env.integer("KOMAND_CLIENT_TOOL_MINUTES", 60, least=1)
KOMAND_INJECTION_GUARD = env.choice("KOMAND_INJECTION_GUARD", "warn", ("off", "warn", "block", "escalate"))
KOMAND_HTTP_REQUEST_HOSTS = env.listing("KOMAND_HTTP_REQUEST_HOSTS")
KOMAND_PYTHON_UNISOLATED = env.text("KOMAND_PYTHON_TOOL") == "unisolated"
KOMAND_PYTHON_TOOL = KOMAND_PYTHON_UNISOLATED or env.flag("KOMAND_PYTHON_TOOL")
KOMAND_ARTIFACT_MAX_BYTES = env.integer("KOMAND_ARTIFACT_MAX_BYTES", 10_000_000, least=1)
KOMAND_ARTIFACTS_MAX_BYTES = env.integer("KOMAND_ARTIFACTS_MAX_BYTES", 100_000_000, least=1)
KOMAND_FETCH_CACHE_SECONDS = env.integer("KOMAND_FETCH_CACHE_SECONDS", 300)
KOMAND_FETCH_ALLOW_PRIVATE = env.listing("KOMAND_FETCH_ALLOW_PRIVATE")
KOMAND_SKILL_ALLOW_PRIVATE = env.listing("KOMAND_SKILL_ALLOW_PRIVATE")
KOMAND_TRUSTED_PUBLISHERS = env.listing("KOMAND_TRUSTED_PUBLISHERS")
KOMAND_CALLBACK_ALLOW_PRIVATE = env.listing("KOMAND_CALLBACK_ALLOW_PRIVATE")
# Files that a user may attach to one message, and their types, as `type/subtype` or `type/*`.
KOMAND_MESSAGE_FILES = env.integer("KOMAND_MESSAGE_FILES", 5, least=0)
KOMAND_ATTACHMENT_TYPES = env.listing(
    "KOMAND_ATTACHMENT_TYPES",
    "image/*,audio/*,video/*,text/*,application/pdf,application/json,application/xml,application/zip,"
    "application/vnd.openxmlformats-officedocument.*,application/msword",
)
KOMAND_ATTACHMENT_DAYS = env.integer("KOMAND_ATTACHMENT_DAYS", 30, least=1)
# Of audio that is transcribed.
KOMAND_VOICE_SECONDS = env.integer("KOMAND_VOICE_SECONDS", 600, least=1)
KOMAND_FILE_LINK_HOURS = env.integer("KOMAND_FILE_LINK_HOURS", 24, least=1)
# Retention in days; 0: for ever. Timelines younger than 90 days, and the newest 1,000 messages of a session, are
# always kept.
KOMAND_TIMELINE_DAYS = env.days("KOMAND_TIMELINE_DAYS", 0, least=90)
KOMAND_TIMELINE_MESSAGES = env.integer("KOMAND_TIMELINE_MESSAGES", 1000, least=1000)
KOMAND_AUDIT_DAYS = env.days("KOMAND_AUDIT_DAYS", 0, least=90)
KOMAND_AUDIT_ANCHOR = env.text("KOMAND_AUDIT_ANCHOR")
KOMAND_AUDIT_ANCHOR_SECRET = env.text("KOMAND_AUDIT_ANCHOR_SECRET")
KOMAND_STEP_DAYS = env.days("KOMAND_STEP_DAYS", 180, least=30)
KOMAND_USAGE_DAYS = env.days("KOMAND_USAGE_DAYS", 0, least=90)

KOMAND_PROVIDERS = {
    "openai": "agents_app.providers.kinds.openai.OpenAIProvider",
    "openai_responses": "agents_app.providers.kinds.openai_responses.ResponsesProvider",
    "demo": "agents_app.providers.kinds.demo.provider.DemoProvider",
    "scripted": "agents_app.providers.kinds.scripted.ScriptedProvider",
}
KOMAND_SURFACES = [
    "sessions_app.surfaces.a2a.surface.SURFACE",
    "sessions_app.surfaces.account.surface.SURFACE",
    "sessions_app.surfaces.ag_ui.surface.SURFACE",
    "sessions_app.surfaces.agent_messages.surface.SURFACE",
    "sessions_app.surfaces.chat.surface.SURFACE",
    "sessions_app.surfaces.mcp.surface.SURFACE",
    "sessions_app.surfaces.openai.surface.SURFACE",
    "sessions_app.surfaces.rest.surface.SURFACE",
    "sessions_app.surfaces.signalr.surface.SURFACE",
    "sessions_app.surfaces.threads.surface.SURFACE",
    "sessions_app.surfaces.tour.surface.SURFACE",
    "sessions_app.surfaces.webchat.surface.SURFACE",
    "sessions_app.surfaces.zeroclaw.surface.SURFACE",
]
# The tour may kill a worker also where there is another model than the demo.
KOMAND_TOUR = env.flag("KOMAND_TOUR")
KOMAND_VERSION = __version__
# What the MCP server offers: modules that register tools, resources and prompts.
KOMAND_MCP_OFFERS = [
    "sessions_app.surfaces.mcp.offers.agents",
    "sessions_app.surfaces.mcp.offers.artifacts",
    "sessions_app.surfaces.mcp.offers.memories",
    "sessions_app.surfaces.mcp.offers.run_tasks",
    "sessions_app.surfaces.mcp.offers.runs",
    "sessions_app.surfaces.mcp.offers.caller_sessions",
    "sessions_app.surfaces.mcp.offers.skills",
    "sessions_app.surfaces.mcp.offers.templates",
    "sessions_app.surfaces.mcp.offers.run_workstreams",
]
KOMAND_CHANNELS = [
    "sessions_app.platforms.adapters.telegram.adapter.Telegram",
    "sessions_app.platforms.adapters.webhook.Webhook",
    "sessions_app.platforms.adapters.slack.adapter.Slack",
    "sessions_app.platforms.adapters.discord.adapter.Discord",
    "sessions_app.platforms.adapters.sms.adapter.Sms",
    "sessions_app.platforms.adapters.email.adapter.Email",
    "sessions_app.platforms.adapters.whatsapp.adapter.WhatsApp",
    "sessions_app.platforms.adapters.signal.adapter.Signal",
    "sessions_app.platforms.adapters.teams.adapter.Teams",
    "sessions_app.platforms.adapters.web.adapter.Web",
]
KOMAND_TOOLS = [
    "tools_app.builtin.echo.Echo",
    "tools_app.builtin.calculator.Calculator",
    "tools_app.builtin.date_time.DateTime",
    "tools_app.builtin.web_fetch.WebFetch",
    "tools_app.builtin.ask_user.AskUser",
    "tools_app.builtin.ask_user.AskForm",
    "tools_app.builtin.update_plan.UpdatePlan",
    "tools_app.builtin.report_progress.ReportProgress",
    "tools_app.builtin.batch.BatchCalls",
    "tools_app.builtin.find_tools.FindTools",
    "tools_app.builtin.memory_store.MemoryStore",
    "tools_app.builtin.memory_recall.MemoryRecall",
    "tools_app.builtin.memory_forget.MemoryForget",
    "tools_app.builtin.read_artifact.ReadArtifact",
    "tools_app.builtin.write_artifact.WriteArtifact",
    "sessions_app.schedules.tool.ScheduleTool",
    "agents_app.workstreams.launch.LaunchWorkstream",
    "agents_app.workstreams.specialists.AgentsList",
    "agents_app.workstreams.control.MessageWorkstream",
    "agents_app.workstreams.control.SteerWorkstream",
    "agents_app.workstreams.control.TerminateWorkstream",
    "agents_app.workstreams.control.WaitWorkstreams",
    "agents_app.workstreams.control.ListWorkstreams",
    "agents_app.network_runs.tool.RunNetwork",
    "agents_app.network_runs.memory_tools.SharedMemoryRead",
    "agents_app.network_runs.memory_tools.SharedMemoryWrite",
    # Two tools that the operator has to enable.
    *(["tools_app.builtin.http_request.HttpRequest"] if KOMAND_HTTP_REQUEST_HOSTS else []),
    *(["tools_app.builtin.python.Python"] if KOMAND_PYTHON_TOOL else []),
]

LOGGING = logging_config.configuration()
