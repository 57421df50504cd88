"""The limits of this app, and the only place of it that reads Django's settings."""

from django.conf import settings

QUEUE = "tools"

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


def private_fetch_targets() -> frozenset[str]:
    """The `host:port` pairs that `web_fetch` may reach although they are not public."""
    return frozenset(target.lower() for target in settings.KOMAND_FETCH_ALLOW_PRIVATE)


def vault_keys() -> str:
    """The vault's keys, comma-separated, newest first."""
    return str(settings.KOMAND_VAULT_KEYS)


def approval_minutes() -> int:
    """How long a request for approval stays open."""
    return int(settings.KOMAND_APPROVAL_MINUTES)
