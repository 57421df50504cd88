"""`manage.py network`: checks, stores and runs networks of agents."""

import json
import time
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from agents_app.models import Agent, Run, StoredNetwork
from agents_app.network_runs import library
from agents_app.network_runs.progress import read_progress
from audit_app.kernel import context
from audit_app.management.app_command import AppCommand
from sessions_app.access import access_runnable_network, access_session
from sessions_app.conversation.network_start import start_network
from sessions_app.identity.scopes import usable_agents

_POLL_SECONDS = 0.5
_SUFFIXES = (".yaml", ".yml")


class Command(AppCommand):
    help = "Check the file of a network, store it, or run a network as a user."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        for name, text in (("check", "Show the problems of a file."), ("import", "Store a file as a network.")):
            action = actions.add_parser(name, help=text)
            action.add_argument("file", metavar="FILE", type=Path)
        run = actions.add_parser("run", help="Run a network and print its answer.")
        run.add_argument("name", metavar="NAME", help="Name of a stored network, or a YAML file that is not stored.")
        run.add_argument("message", metavar="MESSAGE")
        run.add_argument("--user", required=True, help="User who runs it.")
        run.add_argument("--session", default="", help="Session of the user that it runs in. Default: a new one.")
        run.add_argument("--context", default="{}", help="Values for its prompts, as a JSON object.")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            if action == "run":
                self._run(options)
            else:
                self._read(options["file"], stores=action == "import")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise CommandError(str(error)) from None

    def _read(self, file: Path, *, stores: bool) -> None:
        text, agents = file.read_text(encoding="utf-8"), Agent.objects.all()
        network = library.read(text, agents)
        if not stores:
            self.stdout.write(f"The network {network.name} has no problems.")
            return
        with context.bind(actor="system"):
            stored = StoredNetwork.objects.filter(name=network.name).first()
            stored = (
                library.change(stored, agents, text=text) if stored else library.create(text, agents, owner_id=None)
            )
        self.stdout.write(f"{stored.name}: version {stored.version}")

    def _run(self, options: dict[str, Any]) -> None:
        name, username = options["name"], options["user"]
        user = User.objects.filter(username=username, is_active=True).first()
        if user is None:
            raise CommandError(f"--user: there is no active user {username!r}.")
        given = _object_of(options["context"])
        session = access_session(user, options["session"]) if options["session"] else None
        stored = _from_file(user, Path(name)) if name.endswith(_SUFFIXES) else access_runnable_network(user, name)
        with context.bind(actor=f"user:{user.pk}"):
            accepted = start_network(stored, options["message"], owner=user, context=given, session=session)
        while not Run.objects.filter(pk=accepted.run_id, ended_at__isnull=False).exists():
            time.sleep(_POLL_SECONDS)
        progress = read_progress(accepted.run_id)
        for task, result in progress.results.items():
            self.stderr.write(f"{task}: {result.status} {result.error or result.reason}".rstrip())
        if progress.run.error_code:
            raise CommandError(progress.run.error_message)
        self.stdout.write(progress.run.answer)


def _object_of(values: str) -> dict[str, Any]:
    try:
        given = json.loads(values)
    except ValueError as error:
        raise CommandError(f"--context is not valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise CommandError('--context must be a JSON object, such as {"language": "en"}.')
    return given


def _from_file(user: User, file: Path) -> StoredNetwork:
    """Return the network of a file, which is not stored, of agents that the user may use. Raises AppError, OSError."""
    text = file.read_text(encoding="utf-8")
    network = library.read(text, usable_agents(user))
    return StoredNetwork(name=network.name, version=0, definition=text)
