"""The Celery app: two queues, `runs` (rings the engine's bell) and `tools` (runs tools under hard limits)."""

import os
from typing import Any

from celery import Celery
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.worker")


def _configuration() -> dict[str, Any]:
    return dict(settings.CELERY)


app = Celery("komand", set_as_current=True)
app.add_defaults(_configuration)
app.set_default()
