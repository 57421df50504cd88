"""The channels of this installation, by slug. `komand.wiring` registers those that the settings list."""

from audit_app.kernel.registry import Registry
from sessions_app.platforms.base import ChannelAdapter

channels: Registry[type[ChannelAdapter]] = Registry("channel", lambda adapter: adapter.slug)
