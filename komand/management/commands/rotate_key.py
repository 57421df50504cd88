"""`manage.py rotate_key receipts|vault`: adds a new key for receipts or the vault; older keys stay valid."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from audit_app import services as audit
from audit_app.management.app_command import AppCommand
from komand import key_files
from tools_app.secrets import key_rotation

_NEXT = {
    "receipts": "Restart Komand to use it. Keep the old keys for as long as old receipts are to be verified.",
    "vault": "Restart Komand to use it, then run: manage.py rotate_key vault --reseal, and at last --drop-old.",
}


class Command(AppCommand):
    help = "Add a new key for receipts or for the vault of secrets; older keys stay valid."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("which", choices=sorted(key_files.ROTATED))
        step = parser.add_mutually_exclusive_group()
        step.add_argument("--reseal", action="store_true", help="encrypt all secrets with the newest key (vault only)")
        step.add_argument("--drop-old", action="store_true", help="delete all keys except the newest")

    def handle(self, *args: Any, **options: Any) -> None:
        which = options["which"]
        if options["reseal"]:
            self._reseal(which)
        elif options["drop_old"]:
            self._drop_old(which)
        else:
            count = key_files.rotate(which)
            audit.record("KeyRotated", details={"keys": which, "count": count})
            self.stdout.write(f"A new key was added: {count} keys. {_NEXT[which]}")

    def _reseal(self, which: str) -> None:
        if which != "vault":
            raise CommandError("--reseal works with the vault only: a receipt keeps the key that signed it.")
        done = key_rotation.reseal_all()
        audit.record("SecretsResealed", details={"count": done.resealed, "unreadable": list(done.unreadable)})
        for place in done.unreadable:
            self.stdout.write(f"cannot be decrypted, enter it again: {place}")
        self.stdout.write(f"{done.resealed} secrets are encrypted with the newest key.")
        if done.unreadable:
            raise CommandError("Some secrets could not be decrypted. Keep the old keys.")

    def _drop_old(self, which: str) -> None:
        if which == "vault" and (old := key_rotation.count_by_old_keys()):
            raise CommandError(
                f"{old} secrets are encrypted with an old key. First run: manage.py rotate_key vault --reseal."
            )
        dropped = key_files.drop_old(which)
        audit.record("KeysDropped", details={"keys": which, "count": dropped})
        self.stdout.write(f"{dropped} keys were deleted. Restart Komand.")
