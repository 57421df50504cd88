"""The Telegram channel, by the Bot API over HTTP."""
