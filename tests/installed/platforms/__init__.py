"""The platforms of the channels, one module each."""

from typing import Any

from tests.installed.platforms.base import Platform
from tests.installed.platforms.discord import Discord
from tests.installed.platforms.email import Email
from tests.installed.platforms.signal import Signal
from tests.installed.platforms.slack import Slack
from tests.installed.platforms.sms import Sms
from tests.installed.platforms.teams import Teams
from tests.installed.platforms.telegram import Telegram
from tests.installed.platforms.web import Web
from tests.installed.platforms.webhook import Webhook
from tests.installed.platforms.whatsapp import WhatsApp

PLATFORMS: tuple[type[Platform[Any]], ...] = (
    Discord,
    Email,
    Signal,
    Slack,
    Sms,
    Teams,
    Telegram,
    Web,
    Webhook,
    WhatsApp,
)
