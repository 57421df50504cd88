"""`manage.py demo_trust`: shows approval, receipt and forgery on a running installation. Exit code 0 when all holds."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit_app.kernel.errors import AppError
from komand import trust_demo


class Command(BaseCommand):
    help = "Show on this running installation how a high-risk tool call is approved, carried out and proved."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--approve", action="store_true", help="approve the call itself instead of waiting for a person"
        )
        parser.add_argument("--user", default="", metavar="NAME", help="whose session (default: the first operator)")

    def handle(self, *args: Any, **options: Any) -> None:
        person = _person(options["user"])
        try:
            session = trust_demo.prepare(person)
            accepted, approval = trust_demo.ask(person, session)
            self.stdout.write(f"The agent asks for {approval.tool}, risk {approval.risk}: {approval.reason}")
            if options["approve"]:
                trust_demo.approve(person, approval)
                self.stdout.write("Approved by this command.")
            else:
                self.stdout.write(f"Approve it at {_address()}/chat/{session.pk}, logged in as {person.username}.")
            seconds = 60 * settings.KOMAND_APPROVAL_MINUTES + 60
            transcript = trust_demo.wait_for_end(accepted.run_id, 60 if options["approve"] else seconds)
            self.stdout.write(
                f"The run has {transcript.run.status}: {transcript.answer or transcript.run.error_message}"
            )
            for line in trust_demo.check(transcript):
                self.stdout.write(line)
        except AppError as error:
            raise CommandError(error.message) from None
        except trust_demo.DemoFailed as problem:
            raise CommandError(str(problem)) from None
        self.stdout.write(self.style.SUCCESS("All of it holds."))


def _person(name: str) -> User:
    operators = User.objects.filter(is_active=True, is_staff=True).order_by("pk")
    person = operators.filter(username=name).first() if name else operators.first()
    if person is None:
        raise CommandError(f"There is no operator {name!r}." if name else "There is no operator yet.")
    return person


def _address() -> str:
    return settings.KOMAND_PUBLIC_URL or "http://127.0.0.1:8000"
