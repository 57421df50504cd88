"""Limits that several modules of this app share, and values derived from settings."""

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
# A call that no worker takes for so long is reported.
UNTAKEN_SECONDS = 30
# Starts of a repeatable call: a tool may kill its process each time.
MAX_ATTEMPTS = 3

MOST_BATCH_ITEMS = 1_000  # whatever the setting is: the numbers of calls depend on it

LONGEST_ASKER = 80  # of the workstream that asks a person, in the text

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


def mcp_folder() -> Path:
    """Return the parent of the working directories of MCP server processes."""
    return Path(settings.DATA_DIR) / "mcp"


def private_fetch_targets() -> frozenset[str]:
    """Return the `host:port` pairs that `web_fetch` may reach although they are not public."""
    return frozenset(target.lower() for target in settings.KOMAND_FETCH_ALLOW_PRIVATE)


def workspace_folder(agent_id: str) -> Path:
    """Return the folder in which paths of the agent's calls are resolved. It may not exist yet."""
    name = agent_id.replace("/", "_").replace("\0", "_").lstrip(".")  # ids are slugs; nothing else may leave the folder
    return Path(settings.DATA_DIR) / "workspaces" / (name or "_")


def skill_targets() -> frozenset[str]:
    """Return the `host:port` pairs that HTTP skills may reach although they are not public."""
    return frozenset(target.lower() for target in settings.KOMAND_SKILL_ALLOW_PRIVATE)


def http_request_hosts() -> tuple[str, ...]:
    """Return the hosts that `http_request` may reach, in lower case; `*.example.com` means its subdomains."""
    return tuple(host.lower() for host in settings.KOMAND_HTTP_REQUEST_HOSTS)


def artifact_limits() -> tuple[int, int]:
    """Return the maximum bytes of one file, and of all files of a session."""
    return int(settings.KOMAND_ARTIFACT_MAX_BYTES), int(settings.KOMAND_ARTIFACTS_MAX_BYTES)


def service_targets() -> frozenset[str]:
    """Return the `host:port` pairs that requests to services which others name may reach although not public."""
    return frozenset(target.lower() for target in settings.KOMAND_CALLBACK_ALLOW_PRIVATE)
