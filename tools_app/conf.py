"""Limits and settings of this app."""

from pathlib import Path

from django.conf import settings

QUEUE = "tools"
LOOP_QUEUE = "runs"  # of the workers with an event loop

# Time between the soft limit of a call and the kill of its process.
GRACE_SECONDS = 5
# The sweeper waits so much longer before it marks a call as timed out: a kill takes time.
KILL_SLACK_SECONDS = 3
# A nudge without effect after this time may be lost. The sweeper repeats it, with exponential back-off.
RENUDGE_SECONDS = 3
RENUDGE_MAX_SECONDS = 60
# Starts of a repeatable call: a tool may kill its process each time.
MAX_ATTEMPTS = 3

MOST_BATCH_ITEMS = 1_000  # whatever the setting is: the numbers of calls depend on it

MAX_ARGUMENTS_CHARACTERS = 256 * 1024
MAX_OUTPUT_CHARACTERS = 256 * 1024
# Longer texts are truncated in events; the row has the full text.
MAX_EVENT_CHARACTERS = 4_000


def max_timeout_seconds() -> int:
    """Return the longest time limit of any call."""
    return int(settings.KOMAND_TOOL_MAX_MINUTES) * 60


def batch_items() -> int:
    """Return how many items a batch may have."""
    return min(int(settings.KOMAND_BATCH_ITEMS), MOST_BATCH_ITEMS)


def batch_parallel() -> int:
    """Return how many items of a batch run concurrently."""
    return int(settings.KOMAND_BATCH_PARALLEL)


def mcp_folder() -> Path:
    """Return the parent of the working directories of MCP server processes."""
    return Path(settings.DATA_DIR) / "mcp"


def loop_slots() -> int:
    """Return how many calls a runs worker makes concurrently on its event loop."""
    return int(settings.KOMAND_LOOP_TOOL_SLOTS)


def private_fetch_targets() -> frozenset[str]:
    """Return the `host:port` pairs that `web_fetch` may reach although they are not public."""
    return frozenset(target.lower() for target in settings.KOMAND_FETCH_ALLOW_PRIVATE)


def workspace_folder(agent_id: str) -> Path:
    """Return the folder in which paths of the agent's calls are resolved. It may not exist yet."""
    name = agent_id.replace("/", "_").replace("\0", "_").lstrip(".")  # ids are slugs; nothing else may leave the folder
    return Path(settings.DATA_DIR) / "workspaces" / (name or "_")


def runs_python_unisolated() -> bool:
    """Return whether the operator allows the `python` tool where the kernel does not isolate its code."""
    return bool(settings.KOMAND_PYTHON_UNISOLATED)


def vault_keys() -> str:
    """Return the vault's keys, comma-separated, newest first."""
    return str(settings.KOMAND_VAULT_KEYS)


def skill_targets() -> frozenset[str]:
    """Return the `host:port` pairs that HTTP skills may reach although they are not public."""
    return frozenset(target.lower() for target in settings.KOMAND_SKILL_ALLOW_PRIVATE)


def trusted_publishers() -> frozenset[str]:
    """Return the publishers whose signed skills count as verified."""
    return frozenset(settings.KOMAND_TRUSTED_PUBLISHERS)


def receipt_keys() -> str:
    """Return the keys that receipts are signed with, comma-separated, newest first."""
    return str(settings.KOMAND_RECEIPT_KEYS)


def approval_minutes() -> int:
    """Return how long an approval request stays open."""
    return int(settings.KOMAND_APPROVAL_MINUTES)


def input_minutes() -> int:
    """Return how long a question to a user stays open."""
    return int(settings.KOMAND_INPUT_MINUTES)


def injection_guard() -> str:
    """Return the handling of results that look like a prompt injection: off | warn | block | escalate."""
    return str(settings.KOMAND_INJECTION_GUARD)


def fetch_cache_seconds() -> int:
    """Return how long an agent may reuse a fetched page; 0 disables the cache."""
    return int(settings.KOMAND_FETCH_CACHE_SECONDS)


def http_request_hosts() -> tuple[str, ...]:
    """Return the hosts that `http_request` may reach, in lower case; `*.example.com` means its subdomains."""
    return tuple(host.lower() for host in settings.KOMAND_HTTP_REQUEST_HOSTS)


def data_folder() -> Path:
    return Path(settings.DATA_DIR)


def artifact_limits() -> tuple[int, int]:
    """Return the maximum bytes of one file, and of all files of a session."""
    return int(settings.KOMAND_ARTIFACT_MAX_BYTES), int(settings.KOMAND_ARTIFACTS_MAX_BYTES)


def redis_prefix() -> str:
    """Return the prefix of all our keys in Valkey."""
    return str(settings.KOMAND_REDIS_PREFIX)
