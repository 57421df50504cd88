"""The limits of this app, and the only place of it that reads Django's settings."""

from pathlib import Path

from django.conf import settings

QUEUE = "tools"
# Its workers have an event loop.
LOOP_QUEUE = "runs"

# After the soft limit a tool has this long to unwind before its process is killed.
GRACE_SECONDS = 5
# How much later than the kill the reaper calls a call timed out: the kill itself is not instant.
KILL_SLACK_SECONDS = 3
# A nudge that is not answered within this time may be lost; the sweeper rings again, each time after twice as long.
RING_AGAIN_SECONDS = 3
RING_AGAIN_MAX_SECONDS = 60
# How often a repeatable call may begin: a tool that kills its process each time must not do so for ever.
MAX_ATTEMPTS = 3

MAX_ARGUMENTS_CHARACTERS = 256 * 1024
MAX_OUTPUT_CHARACTERS = 256 * 1024
# What a kept event holds of a text that may be long; the row has all of it.
MAX_EVENT_CHARACTERS = 4_000


def max_timeout_seconds() -> int:
    """The longest time any call may be given."""
    return int(settings.KOMAND_TOOL_MAX_MINUTES) * 60


def mcp_folder() -> Path:
    """Where the processes of MCP servers work, each in a folder of its own."""
    return Path(settings.DATA_DIR) / "mcp"


def loop_slots() -> int:
    """How many calls one runs worker makes at a time on its event loop."""
    return int(settings.KOMAND_LOOP_TOOL_SLOTS)


def private_fetch_targets() -> frozenset[str]:
    """The `host:port` pairs that `web_fetch` may reach although they are not public."""
    return frozenset(target.lower() for target in settings.KOMAND_FETCH_ALLOW_PRIVATE)


def workspace_folder(agent_id: str) -> Path:
    """Return the folder in which paths of the agent's calls are resolved. It may not exist yet.

    An agent's id never changes, so its folder does not either.
    """
    name = agent_id.replace("/", "_").replace("\0", "_").lstrip(".")  # ids are slugs; nothing else may leave the folder
    return Path(settings.DATA_DIR) / "workspaces" / (name or "_")


def vault_keys() -> str:
    """The vault's keys, comma-separated, newest first."""
    return str(settings.KOMAND_VAULT_KEYS)


def skill_targets() -> frozenset[str]:
    """The `host:port` pairs that HTTP skills may reach although they are not public."""
    return frozenset(target.lower() for target in settings.KOMAND_SKILL_ALLOW_PRIVATE)


def trusted_publishers() -> frozenset[str]:
    """The publishers whose signed skills carry the verified badge."""
    return frozenset(settings.KOMAND_TRUSTED_PUBLISHERS)


def receipt_keys() -> str:
    """The keys that receipts are made with, comma-separated, newest first."""
    return str(settings.KOMAND_RECEIPT_KEYS)


def approval_minutes() -> int:
    """How long a request for approval stays open."""
    return int(settings.KOMAND_APPROVAL_MINUTES)


def input_minutes() -> int:
    """How long a question to a person stays open."""
    return int(settings.KOMAND_INPUT_MINUTES)


def injection_guard() -> str:
    """What becomes of a result that looks like an attack on the model: off | warn | block | escalate."""
    return str(settings.KOMAND_INJECTION_GUARD)


def fetch_cache_seconds() -> int:
    """How long a fetched page may be used again by the same agent; 0: never."""
    return int(settings.KOMAND_FETCH_CACHE_SECONDS)


def http_request_hosts() -> tuple[str, ...]:
    """The hosts that `http_request` may reach, in lower case; `*.example.com` means those below example.com."""
    return tuple(host.lower() for host in settings.KOMAND_HTTP_REQUEST_HOSTS)


def data_folder() -> Path:
    return Path(settings.DATA_DIR)


def artifact_limits() -> tuple[int, int]:
    """The most bytes of one file, and of all files of a session."""
    return int(settings.KOMAND_ARTIFACT_MAX_BYTES), int(settings.KOMAND_ARTIFACTS_MAX_BYTES)


def redis_prefix() -> str:
    """What the names of all our keys begin with."""
    return str(settings.KOMAND_REDIS_PREFIX)
