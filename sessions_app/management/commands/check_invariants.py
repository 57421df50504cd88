"""`manage.py check_invariants`: checks the integrity of the stored rows, each night and after faults."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sessions_app.integrity_checks import RULES, Violation, find_violations


class Command(BaseCommand):
    help = (
        "Check the eleven invariants of the stored rows. Exit code 1, and a line for each violation, if any is broken."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--grace",
            type=float,
            default=10.0,
            metavar="SECONDS",
            help="time between two checks; a violation counts if both find it (default: %(default)g; 0: check once)",
        )
        parser.add_argument("--list", action="store_true", help="show the rules instead of checking them")

    def handle(self, *args: Any, grace: float, **options: Any) -> None:
        if options["list"]:
            for number, rule in RULES:
                self.stdout.write(f"{number:2}  {rule}")
            return
        broken = lasting_violations(grace)
        for violation in broken:
            self.stdout.write(str(violation))
        if broken:
            raise CommandError(f"{len(broken)} violations", returncode=1)
        self.stdout.write("all invariants hold")


def lasting_violations(grace_seconds: float) -> list[Violation]:
    """Return the violations that persist for the grace period, because a busy installation has short-lived ones."""
    found = find_violations()
    if not found or grace_seconds <= 0:
        return found
    time.sleep(grace_seconds)
    still = set(find_violations())
    return [violation for violation in found if violation in still]
