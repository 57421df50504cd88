"""Search for unsafe settings, rows and files of an installation. `manage.py doctor --security` prints the findings.

An examination of its own makes one query at most. `komand/findings.py` lists the ids and severities of problems.
"""

import os
import platform
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.hashers import check_password
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q

from agents_app.costs import cost_caps
from agents_app.models import DEMO, Agent, ModelPrice
from agents_app.types.prices import EARLIER_UNSET
from komand import channel_checks, data_folder, doctor
from komand.checks import is_public
from komand.findings import LEVELS, Finding
from sessions_app.channels.open_access import OPEN
from sessions_app.identity import second_factor
from sessions_app.models import ChannelAccount
from sessions_app.platforms.adapters.email import authenticity

# What somebody tries first, besides the name of the user.
_GUESSES = ("admin", "komand", "password")
_MOST_NAMES = 5
# The first version of each without CVE-2025-6069: html.parser takes quadratic time for unclosed comments.
_FIXED_PYTHONS = {(3, 11): 14, (3, 12): 12, (3, 13): 6}
_AGENTS = "admin → Agents"


def examine() -> list[Finding]:
    """Return the problems, the worst first. Reads only."""
    always: list[doctor.Examination] = [
        doctor.check_settings,
        doctor.check_modes,
        _secret_files,
        _python,
        _python_tool,
        _origins,
        _running_runs,
        doctor.check_database,
    ]
    in_database: list[doctor.Examination] = [
        channel_checks.check_exposure,
        _open_accounts,
        _mail_accounts,
        _agents,
        _costs,
        _approvers,
        _second_factors,
        _passwords,
    ]
    found = [replace(one, ok=False) for one in doctor.run([*always, *in_database], in_database) if one.id]
    return sorted(found, key=lambda finding: LEVELS.index(finding.severity))


def mend() -> list[str]:
    """Take from others the access to the data folder, which breaks nothing. Return what was done, a line each."""
    folder = Path(settings.DATA_DIR)
    changed, errors = data_folder.mend(folder)
    done = [f"files.modes: changed the modes of {changed} entries of {folder}"] if changed else []
    return [*done, *(f"files.modes: {error}" for error in errors)]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _secret_files() -> Iterator[Finding]:
    named = {name: Path(value) for name, value in os.environ.items() if name.endswith("_FILE") and value}
    for name, path in sorted(named.items()):
        if name.startswith(("KOMAND_", "DATABASE_", "REDIS_", "OPENAI_")) and data_folder.is_open(path.resolve()):
            detail = f"Other users of this machine have access to {path}, which {name} names."
            yield Finding("secret files", False, detail, f"chmod go= {shlex.quote(str(path))}", "files.secrets")


def _python() -> Iterator[Finding]:
    fixed = _FIXED_PYTHONS.get(sys.version_info[:2], 0)
    if sys.version_info[2] < fixed:
        detail = f"Pages can keep packages that you add to Python {platform.python_version()} busy: CVE-2025-6069."
        mend = f"use Python {sys.version_info[0]}.{sys.version_info[1]}.{fixed} or newer"
        yield Finding("python", False, f"{detail} Komand guards its own parsing.", mend, "python.html")


def _python_tool() -> Iterator[Finding]:
    if settings.KOMAND_PYTHON_UNISOLATED:
        detail = "Code that a model has written can do on this machine what Komand's user can do."
        yield Finding("python tool", False, detail, "set KOMAND_PYTHON_TOOL to true or false", "tools.unisolated")


def _origins() -> Iterator[Finding]:
    if "*" in settings.KOMAND_CORS_ORIGINS:
        detail = "Pages of every site may call the API from the browsers of your users, with any credential they get."
        yield Finding("origins", False, detail, "list origins in KOMAND_CORS_ORIGINS", "cors.any")


def _running_runs() -> Iterator[Finding]:
    if not settings.KOMAND_MAX_RUNNING_PER_USER:
        detail = "One user can take all places of the runs workers, so that others wait."
        yield Finding("running runs", False, detail, "set KOMAND_MAX_RUNNING_PER_USER, such as to 30", "runs.unlimited")


def _open_accounts() -> Iterator[Finding]:
    for account in ChannelAccount.objects.filter(is_enabled=True, access=OPEN):
        detail = f"Everyone who finds {account} can write to its agent, which is intended of a bot for the public only."
        yield Finding("open account", False, detail, "admin → Channels: Access", "channels.open")


def _mail_accounts() -> Iterator[Finding]:
    for account in ChannelAccount.objects.filter(is_enabled=True, channel="email"):
        server = str(account.config.get("auth_server") or "")
        least = str(account.config.get("senders") or authenticity.VERIFIED)
        mend = f"set auth_server, as manage.py channel test email {account.account_id} offers it"
        if authenticity.is_forgeable(server, least):
            detail = f"Everyone can write to {account} as somebody else: it takes senders that nothing proves."
            yield Finding("mail", False, detail, f"{mend}, and senders to verified", "channels.forgeable")
        elif not server:
            detail = f"No sender of a mail to {account} can be verified, so none is answered."
            yield Finding("mail", False, f"{detail} Do not lower senders instead.", mend, "channels.unverified")


def _agents() -> Iterator[Finding]:
    rows = Agent.objects.filter(retired_at=None, autonomy="full").exclude(egress_servers=[])
    for agent_id, servers in rows.values_list("agent_id", "egress_servers"):
        detail = f"Pages that {agent_id} reads can have it send what it knows to {_some(servers)}, unasked."
        yield Finding("agent", False, detail, f"empty egressServers or lower autonomy: {_AGENTS}", "agents.egress")


def _costs() -> Iterator[Finding]:
    if next(cost_caps.installation_caps(), None):
        return
    has_own = Q(provider__input_price__isnull=False, provider__output_price__isnull=False)
    unset = Q(provider__input_price=EARLIER_UNSET.input, provider__output_price=EARLIER_UNSET.output)
    priced = (has_own & ~unset) | Exists(ModelPrice.objects.filter(provider=OuterRef("provider")))
    # The prices of the demo model are for the page of costs: nobody pays them.
    agents = Agent.objects.filter(priced, retired_at=None, provider__is_enabled=True).exclude(provider__kind=DEMO)
    rows = agents.values_list("agent_id", "budgets")
    if free := [agent_id for agent_id, budgets in rows if not any(key.startswith("cost") for key in budgets)]:
        detail = f"Nothing limits what the operator pays for all calls of {_some(free)}."
        mend = f"set KOMAND_COST_PER_DAY or KOMAND_COST_PER_MONTH, or budgets of cost: {_AGENTS}"
        yield Finding("costs", False, detail, mend, "costs.uncapped")


def has_several_users() -> bool:
    """Return whether more than one user may log in."""
    return User.objects.filter(is_active=True)[:2].count() > 1


def superusers_without_code() -> list[str]:
    """Return the names of the superusers whose password alone logs them in."""
    return [user.get_username() for user, is_asked in second_factor.list_superusers() if not is_asked]


def _approvers() -> Iterator[Finding]:
    if settings.KOMAND_APPROVERS == "owners" and has_several_users():
        detail = "Every user allows the calls of their own runs, so that operators see none before it is made."
        yield Finding("approvers", False, detail, "set KOMAND_APPROVERS=operators", "approvals.owners")


def _second_factors() -> Iterator[Finding]:
    if not is_public(urlsplit(settings.KOMAND_PUBLIC_URL).hostname or ""):
        return
    if alone := superusers_without_code():
        detail = f"Whoever learns the password of {_some(alone)} has all rights, from anywhere."
        mend = "set KOMAND_STAFF_SECOND_FACTOR=required: the next login sets it up"
        yield Finding("second factor", False, detail, mend, "login.second_factor")


def _passwords() -> Iterator[Finding]:
    for user, _ in second_factor.list_superusers():
        name = user.get_username()
        if any(check_password(guess, user.password) for guess in dict.fromkeys((name, *_GUESSES))):
            detail = f"Everyone can log in as {name}, whose password is one of the first that are tried."
            mend = f"python manage.py changepassword {shlex.quote(name)}"
            yield Finding("password", False, detail, mend, "login.guessable")
