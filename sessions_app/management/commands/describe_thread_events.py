"""`manage.py describe_thread_events`: prints docs/threads-events.json, the JSON Schemas of the thread stream."""

import json
from typing import Any

from django.core.management.base import BaseCommand

from sessions_app.surfaces.threads.event_schemas import document


def text() -> str:
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


class Command(BaseCommand):
    help = "Print a JSON Schema for each event of a thread's stream."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(text(), ending="")
