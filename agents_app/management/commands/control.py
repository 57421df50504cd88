"""`manage.py control stop|resume|status`: the emergency stop, for when the web process is down."""

import getpass
from typing import Any

from django.core.management.base import CommandParser

from agents_app import services
from audit_app.kernel import context
from audit_app.management.app_command import AppCommand
from tools_app.policy import emergency_stop


class Command(AppCommand):
    help = "Stop or resume all agents, or one, or show which are stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=["stop", "resume", "status"])
        parser.add_argument("--agent", default=emergency_stop.ALL, help="Only the agent of this id.")
        parser.add_argument(
            "--reason", default="", help="Shown to users whose messages are refused, and stored in the audit log."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        scope, reason = options["agent"], options["reason"]
        with context.bind(actor=f"shell:{getpass.getuser()}"):
            if options["what"] == "stop":
                services.stop_agents(scope, reason=reason)
            elif options["what"] == "resume":
                services.resume_agents(scope, reason=reason)
        stopped = emergency_stop.list_stopped()
        for view in stopped:
            since = f"{view.changed_at:%Y-%m-%d %H:%M:%S} UTC" if view.changed_at else ""
            self.stdout.write(f"{emergency_stop.explain(view.scope, view.reason)} By {view.changed_by}, {since}")
        if not stopped:
            self.stdout.write("All agents are running.")
