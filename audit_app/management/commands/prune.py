"""`manage.py prune [--dry-run]`: deletes all expired rows at once, as the sweepers do in small steps."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from audit_app import retention


class Command(BaseCommand):
    help = "Delete expired rows, in batches so small that no writer has to wait. Prints the number of rows per rule."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count the rows that would be deleted")

    def handle(self, *args: Any, **options: Any) -> None:
        for rule in retention.list_rules():
            gone = rule.count() if options["dry_run"] else _prune(rule)
            self.stdout.write(f"{gone:>10,}  {rule.name}  (kept: {rule.kept_for})")


def _prune(rule: retention.Rule) -> int:
    gone = 0
    while (count := rule.prune(retention.BATCH)) == retention.BATCH:
        gone += count
    return gone + count
