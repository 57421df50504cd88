"""The channels of this installation, by slug. `komand.wiring` registers those that the settings list."""

from audit_app.kernel.registry import Registry
from sessions_app.platforms.base import ChannelAdapter

channels: Registry[type[ChannelAdapter]] = Registry("channel", lambda adapter: adapter.slug)

# Adapters that only send, for the gateway itself: operators neither add nor see accounts of theirs.
own_senders: Registry[type[ChannelAdapter]] = Registry("sender", lambda adapter: adapter.slug)


def get_adapter(slug: str) -> type[ChannelAdapter]:
    """Return the adapter of an account. Raises NotFound."""
    return own_senders.find(slug) or channels.get(slug)
