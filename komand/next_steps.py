"""The page of what a new installation needs next: each step with a tick when it is done, else with the way to do it.

What `doctor` knows as well, it takes from the same functions. It is computed only when somebody opens the page.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render

from agents_app.configuration.agents import DEFAULT_AGENT
from agents_app.models import DEMO, Agent
from audit_app.rights import require
from komand import channel_checks, checks, security_audit, upgrades
from komand.backup import history
from sessions_app.models import ChannelAccount
from sessions_app.rights import CHANGE_USERS
from sessions_app.surfaces.base.pages import PageRequest, page


@dataclass(frozen=True)
class NextStep:
    """A step.

    detail: one sentence: the state, or what it is good for.
    link: page that does it, with its label; empty if none does.
    command: for the terminal, or a setting.
    """

    title: str
    is_done: bool
    detail: str
    link: str = ""
    label: str = ""
    command: str = ""


@page("GET")
def next_steps(request: PageRequest) -> HttpResponse:
    """Show the steps to those who look after the users of the installation."""
    require(request.user, CHANGE_USERS)
    steps = list(list_steps())
    shown = {"steps": steps, "done": sum(step.is_done for step in steps)}
    return render(request, "account/next_steps.html", shown)


def list_steps() -> Iterator[NextStep]:
    """Yield all steps, in the order in which they make sense."""
    checked: tuple[Callable[[], NextStep], ...] = (
        _model,
        _colleague,
        _channel,
        _backup,
        _public_address,
        _second_factor,
        _upgrade,
    )
    return (check() for check in checked)


def _model() -> NextStep:
    agent = Agent.objects.select_related("provider").filter(agent_id=DEFAULT_AGENT).first()
    if agent and agent.provider.kind != DEMO and agent.provider.is_enabled:
        model = agent.model_id or agent.provider.default_model or "a model"
        return NextStep("Connect a model", True, f"The default agent answers with {model} by {agent.provider.name}.")
    detail = "The default agent answers by the rules of the demo: give it a real model."
    return NextStep("Connect a model", False, detail, "/connect-model?next=/next", "Connect a model")


def _colleague() -> NextStep:
    if security_audit.has_several_users():
        return NextStep("Invite a colleague", True, "More than one person can log in.")
    detail = "Add a second person: they get a link to choose a password."
    return NextStep("Invite a colleague", False, detail, "/admin/auth/user/add/", "Add a user")


def _channel() -> NextStep:
    title, link = "Reach an agent from a channel", "/admin/sessions_app/channelaccount/"
    if ChannelAccount.objects.filter(is_enabled=True, last_sent_at__isnull=False).exists():
        return NextStep(title, True, "A channel has sent an answer.")
    if broken := next(channel_checks.check_accounts(), None):
        return NextStep(title, False, f"{broken.name} {broken.detail}", link, "See the channels", broken.mend)
    if ChannelAccount.objects.exists():
        return NextStep(title, False, "An account is set up, but has sent nothing yet: write to it.", link, "Channels")
    return NextStep(title, False, "People write to it by Telegram, Slack, e-mail and others.", f"{link}add/", "Add one")


def _backup() -> NextStep:
    if made := history.last_made():
        return NextStep("Make a backup", True, f"The last one was made {made:%Y-%m-%d %H:%M} UTC.")
    detail = "It copies database, files and secrets while everything runs, and verifies the copy."
    return NextStep("Make a backup", False, detail, command="manage.py backup FOLDER")


def _public_address() -> NextStep:
    url = settings.KOMAND_PUBLIC_URL
    parts = urlsplit(url)
    if parts.scheme == "https" and checks.is_public(parts.hostname or ""):
        return NextStep("Give it a public address", True, f"Its address is {url}.")
    detail = "Phones and platforms reach it by https, behind a proxy that has the certificate; see deploy/README.md."
    return NextStep("Give it a public address", False, detail, command="KOMAND_PUBLIC_URL=https://komand.example.com")


def _second_factor() -> NextStep:
    title, alone = "Turn on the second factor", security_audit.superusers_without_code()
    if not alone:
        return NextStep(title, True, "Every superuser with a password is asked for a code.")
    detail = f"The password alone logs in with all rights: {', '.join(alone[:3])}{' and others' if alone[3:] else ''}."
    return NextStep(title, False, detail, "/account/second-factor", "Set up your app")


def _upgrade() -> NextStep:
    if version := upgrades.last_version():
        return NextStep("Try an upgrade", True, f"This installation was upgraded, last to {version}.")
    detail = "Try it before you depend on it: docs/operations.md has the five steps, and the way back."
    return NextStep("Try an upgrade", False, detail, command="manage.py prepare")
