"""`manage.py index_search`: brings the index of the search up to date at once, with its progress."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from audit_app.full_text import index
from audit_app.models import SearchProgress
from sessions_app.conversation import message_index
from tools_app.storage import memories

_LINE_SECONDS = 5.0


class Command(BaseCommand):
    help = (
        "Index messages that the search does not find yet, such as those from before an upgrade. A running installation"
        " does this in the background; this command is faster. It may be interrupted and started again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--rebuild", action="store_true", help="empty the index first, and index everything anew")

    def handle(self, *args: Any, rebuild: bool = False, **options: Any) -> None:
        if rebuild:
            index.clear()
            SearchProgress.objects.all().delete()
        while memories.index_missing():
            pass
        total, done, shown_at = message_index.count_missing(), 0, time.monotonic()
        indexer = message_index.Indexer()
        while count := indexer.index_some():
            done += count
            if time.monotonic() - shown_at >= _LINE_SECONDS:
                shown_at = time.monotonic()
                self.stdout.write(f"{min(done, total):,} of {total:,} messages")
        self.stdout.write(f"Indexed {done:,} messages.")
