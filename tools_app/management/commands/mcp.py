"""`manage.py mcp`: adds, tests and refreshes MCP servers, and approves their tools."""

import json
from argparse import REMAINDER
from functools import partial
from typing import Any

from django.core.management.base import CommandParser

from audit_app.kernel.errors import InvalidInput
from audit_app.management.app_command import AppCommand
from tools_app.mcp_client import discovery, server_authorization, servers
from tools_app.models import McpServer


class Command(AppCommand):
    help = "Set up MCP servers, whose tools agents can use. See docs/mcp.md."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        add = actions.add_parser("add", help="add a server, connect to it and approve the tools that it lists")
        add.add_argument("name", help="name of the server, part of the names of its tools")
        add.add_argument("--url", default="", help="URL of the server, for streamable HTTP (or SSE, with --sse)")
        add.add_argument("--sse", action="store_true", help="use the older SSE transport")
        add_pairs = partial(add.add_argument, action="append", default=[], metavar="NAME=TEXT")
        add_pairs("--header", help="header of each request; repeat for several")
        add.add_argument("--client-id", default="", help="OAuth client that you have registered for Komand yourself")
        add.add_argument("--client-secret", default="", help="its secret, as a reference: {{credential:NAME}}")
        add_pairs("--env", help="environment variable of its process; repeat for several")
        add.add_argument(
            "--risk", choices=[risk for risk, _ in McpServer.RISKS], help="risk of its tools (default: high)"
        )
        add.add_argument(
            "--command",
            nargs=REMAINDER,
            default=[],
            dest="line",
            metavar="PROGRAM",
            help="command with its arguments; must come last",
        )
        actions.add_parser("list", help="list the servers")
        for action, what in _ON_ONE.items():
            actions.add_parser(action, help=what).add_argument("name")
        approve = actions.add_parser("approve", help="approve tools as they are listed now")
        approve.add_argument("name")
        approve.add_argument("tools", nargs="*", help="names of the tools (default: all)")

    def _add(self, options: dict[str, Any]) -> None:
        settings: dict[str, Any] = {"name": options["name"]}
        if options["url"]:
            transport = "sse" if options["sse"] else "streamable_http"
            settings |= {"transport": transport, "url": options["url"], "headers": _pairs(options["header"])}
            settings |= {f"oauth_{name}": options[name] for name in ("client_id", "client_secret")}
        else:
            program, *arguments = options["line"] or [""]
            settings |= {"command": program, "arguments": arguments, "environment": _pairs(options["env"])}
        if options["risk"]:
            settings["default_risk"] = options["risk"]
        server = servers.add_server(**settings)
        self.stdout.write(f"{server} was added.")
        self._refresh(options)

    def _list(self, options: dict[str, Any]) -> None:
        for server in McpServer.objects.prefetch_related("tools"):
            state = server.get_state_display() if server.is_enabled else "off"
            offered = sum(tool.status == "offered" for tool in server.tools.all())
            waiting = sum(tool.status in ("new", "changed") for tool in server.tools.all())
            line = f"{server}  {server.transport}  {state}  {offered} tools"
            self.stdout.write(line + (f", {waiting} wait for approval" if waiting else ""))

    def _show(self, options: dict[str, Any]) -> None:
        server = servers.get_server(options["name"])
        for tool in server.tools.all():
            claims = f"  claims {json.dumps(tool.hints)}" if tool.hints else ""
            risk, effect = tool.risk or server.default_risk, tool.effect or server.default_effect
            self.stdout.write(f"{tool.name}  {tool.status}  risk {risk}  effect {effect}{claims}")
        if server.last_error:
            self.stdout.write(f"Last error: {server.last_error}")

    def _test(self, options: dict[str, Any]) -> None:
        found = discovery.discover(servers.get_server(options["name"]))
        name, version, protocol = found.greeting.name, found.greeting.version, found.greeting.protocol
        self.stdout.write(f"Connected to {name or 'no name'} {version}, protocol {protocol}.")
        self.stdout.write(f"{len(found.tools)} tools: {', '.join(tool.name for tool in found.tools) or 'none'}.")
        self._print_skipped(found.skipped)

    def _refresh(self, options: dict[str, Any]) -> None:
        server = servers.get_server(options["name"])
        found, listed = discovery.refresh(server)
        self.stdout.write(f"{len(found.tools)} tools are listed.")
        for what, names in (("New", listed.new), ("Changed", listed.changed), ("Gone", listed.gone)):
            if names:
                self.stdout.write(f"{what}: {', '.join(names)}")
        self._print_skipped(found.skipped)
        waiting = [tool.name for tool in server.tools.all() if tool.status in ("new", "changed")]
        if waiting:
            self.stdout.write(f"Review them, then run: manage.py mcp approve {server} {' '.join(waiting)}")

    def _approve(self, options: dict[str, Any]) -> None:
        server = servers.get_server(options["name"])
        approved = servers.approve_tools(server, options["tools"] or None)
        self.stdout.write(f"Approved: {', '.join(approved) or 'nothing new'}.")

    def _enable(self, options: dict[str, Any]) -> None:
        servers.change_server(servers.get_server(options["name"]), is_enabled=True)

    def _disable(self, options: dict[str, Any]) -> None:
        servers.change_server(servers.get_server(options["name"]), is_enabled=False)

    def _remove(self, options: dict[str, Any]) -> None:
        problem = server_authorization.remove_server(servers.get_server(options["name"]))
        self.stdout.write(f"{options['name']} was removed.")
        if problem:
            self.stdout.write(f"Its tokens were not revoked: {problem}")

    def _print_skipped(self, skipped: dict[str, str]) -> None:
        for name, reason in skipped.items():
            self.stdout.write(f"Skipped {name[:60]!r}: {reason}.")


_ON_ONE = {
    "show": "list its tools, with their risk, effect and the server's claims",
    "test": "connect to it and list its tools, storing nothing",
    "refresh": "connect to it and store the tools that it lists now",
    "enable": "enable it",
    "disable": "disable it",
    "remove": "delete it and its tools",
}


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput(f"{name!r} must have the form NAME=TEXT.")
        pairs[name] = value
    return pairs
