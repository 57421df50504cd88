"""Lean settings of the workers: models and engine, no admin, no pages, no URL conf."""

from komand.settings.base import *  # noqa: F403
