"""`manage.py prepare`: migrates and seeds the database. `manage.py up` runs it before anything else."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core import checks
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import DatabaseError, OperationalError

from audit_app.kernel.errors import Unavailable
from komand import data_folder, seed, upgrades
from komand.backup import database, resumed_work, unfinished_restore
from komand.foreign_keys import find_unvalidated
from sessions_app.channels import open_access
from sessions_app.identity import login_links
from tools_app.storage import file_store

_UNUSABLE = "komand: the database cannot be used: {}"


class Command(BaseCommand):
    help = "Check the settings, migrate the database, create the first user, provider and agent. Prints a JSON line."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--login-link", action="store_true", help="make a link by which the first user logs in, once"
        )
        parser.add_argument("--parts", action="store_true", help="print a JSON line about each part that is done")
        parser.add_argument("--of-restore", action="store_true", help="run by the command restore (used internally)")

    def handle(self, *args: Any, **options: Any) -> None:
        if unfinished_restore.read(Path(settings.DATA_DIR)) and not options["of_restore"]:
            sys.exit(f"komand: a restore into {settings.DATA_DIR} was interrupted; run manage.py restore FOLDER again")
        self._make_private()
        self._connect()
        self._check()
        begun = time.monotonic()
        try:
            applied = self._migrate(of_restore=options["of_restore"])
            begun = self._end_part("database", begun, options, f"{applied} applied" if applied else "")
            seeded = seed.seed()
            self._end_part("seed", begun, options)
            if not options["of_restore"]:
                resumed_work.move_if_requested(Path(settings.DATA_DIR))
        except OperationalError as error:
            sys.exit(_UNUSABLE.format(error).strip())
        self._warn_of_files()
        for account, danger in open_access.list_dangers():
            self.stderr.write(f"warning: channel account {account}: {danger}")
        provider = seeded.agent.provider
        login = {"username": seed.ADMIN_NAME, "email": seed.ADMIN_EMAIL, "password": seeded.password}
        result = {
            "migrations_applied": applied,
            "login": login if seeded.password else None,
            "login_link": self._login_link() if options["login_link"] else "",
            "provider": {
                "name": provider.name,
                "kind": provider.kind,
                "model": seeded.agent.model_id or provider.default_model,
                "base_url": provider.base_url,
            },
        }
        self.stdout.write(json.dumps(result))

    def _end_part(self, part: str, begun: float, options: Mapping[str, Any], note: str = "") -> float:
        """Report that a part is done, and return the time at which the next one begins."""
        now = time.monotonic()
        if options["parts"]:
            self.stdout.write(json.dumps({"part": part, "seconds": now - begun, "note": note}))
            self.stdout.flush()
        return now

    def _login_link(self) -> str:
        """Return the path of a link that logs the first user in; empty if there is no such user."""
        user = User.objects.filter(username=seed.ADMIN_NAME, is_active=True).first()
        return f"/login/link/{login_links.make(user)}" if user else ""

    def _make_private(self) -> None:
        """Create the data folder, or mend its modes. Errors of modes do not stop the start: some disks have none."""
        folder = Path(settings.DATA_DIR)
        # Secrets and files may be elsewhere, and then nothing else creates it.
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        changed, errors = data_folder.mend(folder)
        if changed:
            self.stderr.write(
                f"warning: other users had access to {changed} entries of {folder}; their modes were changed"
            )
        if errors:
            self.stderr.write(
                f"warning: other users still have access to {len(errors)} entries of {folder}: {errors[0]}"
            )

    def _warn_of_files(self) -> None:
        """Check the bucket. It may come back by itself, and chats work without files: the start goes on."""
        try:
            file_store.current().check()
        except Unavailable as error:
            self.stderr.write(f"warning: {file_store.current()}: {error.__cause__ or error}. Run: manage.py doctor")

    def _connect(self) -> None:
        """Exit with one line if the server does not answer, or the file is damaged."""
        try:
            connection.ensure_connection()
        except DatabaseError as error:
            sys.exit(_UNUSABLE.format(error).strip())

    def _check(self) -> None:
        """Run the checks of settings: exit on errors, print warnings. Those of code import all URLs; tests run them."""
        for message in checks.run_checks(tags=[checks.Tags.security]):
            self.stderr.write(
                f"{'error' if message.is_serious() else 'warning'}: {message.msg} {message.hint or ''}".strip()
            )
            if message.is_serious():
                sys.exit(1)

    def _migrate(self, *, of_restore: bool) -> int:
        was_empty = database.is_empty()
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if plan or find_unvalidated(connection):
            call_command("migrate", interactive=False, verbosity=0)
        if plan and not (was_empty or of_restore):
            upgrades.record(len(plan))
        return len(plan)
