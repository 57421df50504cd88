"""The platforms of the channels, one module each."""

from typing import Any

from tests.installed.platforms.base import Platform
from tests.installed.platforms.telegram import Telegram
from tests.installed.platforms.whatsapp import WhatsApp

PLATFORMS: tuple[type[Platform[Any]], ...] = (Telegram, WhatsApp)
