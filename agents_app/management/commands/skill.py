"""`manage.py skill`: publishes skills from a folder or a manifest, shows them, and installs them for agents."""

import json
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from agents_app import selectors
from agents_app.configuration import agent_skills
from audit_app.kernel.errors import InvalidInput
from audit_app.management.app_command import AppCommand
from tools_app.skills import registry
from tools_app.skills.folder import read_folder
from tools_app.skills.manifest import digest_of


class Command(AppCommand):
    help = "Publish skills and install them for agents. See docs/skills.md."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        add = actions.add_parser("add", help="publish a version")
        source = add.add_mutually_exclusive_group(required=True)
        source.add_argument("folder", nargs="?", metavar="PATH", help="folder with a SKILL.md: an instruction skill")
        source.add_argument("--manifest", metavar="FILE", help="JSON manifest")
        add.add_argument("--publisher", default="local", help="publisher, if the folder names none (default: local)")
        add.add_argument("--sign", action="store_true", help="set the signature hash to the digest")
        actions.add_parser("list", help="list the newest versions")
        info = actions.add_parser("info", help="show a skill")
        install = actions.add_parser("install", help="install a skill for an agent")
        uninstall = actions.add_parser("uninstall", help="uninstall a skill from an agent")
        remove = actions.add_parser("remove", help="remove a skill from the registry")
        for one in (info, install, uninstall, remove):
            one.add_argument("skill_id")
        for one in (install, uninstall):
            one.add_argument("--agent", default="default", metavar="ID")
        install.add_argument("--version", default="", dest="skill_version", help="version (default: the newest)")
        install.add_argument(
            "--grant",
            action="append",
            metavar="PERMISSION",
            help="permission to grant; repeat for several (default: all required ones)",
        )
        install.add_argument(
            "--user",
            default="",
            metavar="NAME",
            help="user whose credentials it uses (default: those of the installation)",
        )

    def _add(self, options: dict[str, Any]) -> None:
        if options["manifest"]:
            data = _read_json(Path(options["manifest"]))
        else:
            data = read_folder(Path(options["folder"]), publisher_id=options["publisher"])
        if options["sign"]:
            data["signatureHash"] = digest_of(data)
        view, is_new = registry.register(data)
        manifest = view.manifest
        self.stdout.write(
            f"{manifest.skill_id} {manifest.version} is {'published' if is_new else 'already published'}."
        )
        self._print(view)

    def _list(self, options: dict[str, Any]) -> None:
        views, total = registry.list_skills(limit=500)
        for view in views:
            badge = "  verified" if view.is_verified else ""
            self.stdout.write(
                f"{view.manifest.skill_id} {view.manifest.version}  {view.manifest.kind}{badge}  {view.manifest.name}"
            )
        self.stdout.write(f"{total} skills.")

    def _info(self, options: dict[str, Any]) -> None:
        view = registry.get_skill(options["skill_id"])
        self.stdout.write(f"{view.manifest.name}: {view.manifest.description}")
        self.stdout.write(f"versions: {', '.join(view.versions)}")
        self._print(view)

    def _print(self, view: registry.SkillView) -> None:
        needs = ", ".join(map(str, view.manifest.required)) or "nothing"
        self.stdout.write(
            f"{view.manifest.kind}, {'verified' if view.is_verified else 'not verified'}, requires: {needs}"
        )

    def _install(self, options: dict[str, Any]) -> None:
        installed = agent_skills.install_skill(
            selectors.get_agent(options["agent"]),
            options["skill_id"],
            version=options["skill_version"],
            granted=options["grant"],
            owner_id=_user_id(options["user"]),
        )
        granted = ", ".join(map(str, installed.granted)) or "nothing"
        self.stdout.write(f"{installed.agent_id} has {installed.skill_id} {installed.version}; granted: {granted}.")

    def _uninstall(self, options: dict[str, Any]) -> None:
        agent_skills.uninstall_skill(selectors.get_agent(options["agent"]), options["skill_id"])
        self.stdout.write(f"{options['agent']} no longer has {options['skill_id']}.")

    def _remove(self, options: dict[str, Any]) -> None:
        registry.delete_skill(options["skill_id"])
        self.stdout.write(f"{options['skill_id']} is removed.")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}.") from None
    if not isinstance(data, dict):
        raise InvalidInput(f"{path} does not contain a JSON object.")
    return data


def _user_id(name: str) -> int | None:
    if not name:
        return None
    user = User.objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"There is no user {name!r}.")
    return int(user.pk)
