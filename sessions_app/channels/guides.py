"""Set-up guides of channel accounts, with the addresses of this installation filled in."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from sessions_app.channels import accounts
from sessions_app.platforms.registry import channels

_PLACEHOLDER = "https://YOUR-ADDRESS"
_NO_ADDRESS = """
`KOMAND_PUBLIC_URL` is not set: `{origin}` stands for the address under which others reach this installation. Set it
to that address, `https://…`, and restart.
"""


def guide_of(channel: str, account_id: str, config: Mapping[str, Any], *, reached_at: str = "") -> tuple[str, str]:
    """Return what to do before an account is added, and what after it, in Markdown; empty if nothing is.

    reached_at: the origin under which this installation was reached, used without KOMAND_PUBLIC_URL.
    """
    guide = channels.get(channel).guide(accounts.settings_of(channel, account_id, config, {}))
    steps = [_fill(part, channel, account_id, reached_at) for part in guide.split("\n---\n")]
    return steps[0], "\n".join(steps[1:])


def _fill(guide: str, channel: str, account_id: str, reached_at: str) -> str:
    has_address = "{origin}" in guide or "{webhook}" in guide
    guide = guide + _NO_ADDRESS if has_address and not settings.KOMAND_PUBLIC_URL else guide
    guide = guide.replace("{webhook}", f"{{origin}}/channels/{channel}/{account_id}/webhook")
    origin = settings.KOMAND_PUBLIC_URL or reached_at or _PLACEHOLDER
    return guide.replace("{origin}", origin).replace("{account}", account_id)
