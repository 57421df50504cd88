"""Settings of the web process and of management commands: pages, admin, REST."""

from komand.settings import env
from komand.settings.base import *  # noqa: F403
from komand.settings.base import BASE_DIR, INSTALLED_APPS, KOMAND_REDIS_PREFIX, KOMAND_REDIS_URL

INSTALLED_APPS = [
    "daphne",
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "django_htmx",
    "axes",
    *INSTALLED_APPS,
]
