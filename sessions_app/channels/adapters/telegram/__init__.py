"""Telegram, by its Bot API over plain HTTP."""
