"""Limits of what senders can do through a channel account: its list of tools, and messages per sender and day.

An account that is open to everyone always has both, because its senders are unknown. Other accounts have them if an
operator sets them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from django.conf import settings
from django.db import connection

from agents_app.models import Agent
from agents_app.network_runs import library
from agents_app.networks import yaml_format
from audit_app.kernel.errors import AppError
from sessions_app.models import ChannelAccount, ChannelRoute
from sessions_app.platforms.registry import channels
from tools_app.catalogue import find_tool
from tools_app.types import Risk

OPEN = "open"
# Returns no row if the day's count has reached the limit.
_COUNT_ONE = """
    INSERT INTO komand_sender_day (account_id, sender_id, day, messages) VALUES (%s, %s, %s, 1)
    ON CONFLICT (account_id, sender_id, day) DO UPDATE SET messages = komand_sender_day.messages + 1
    WHERE komand_sender_day.messages < %s
    RETURNING messages
"""


class SenderBudgetUsedUp(AppError):
    """The sender has written as often as the account allows in one day."""

    code = "sender_budget_used_up"


def parse_tools(text: str) -> list[str] | None:
    """Return the list of tools that an operator wrote: names separated by commas, or `none`; None for an empty text."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return ([] if names == ["none"] else names) if names else None


def messages_per_day(account: ChannelAccount) -> int | None:
    """Return how many messages one sender may send in a day (UTC), None for any number.

    Without a number of the account's own, the lower one of its channel and of accounts that are open to everyone.
    """
    if account.messages_per_day is not None:
        return account.messages_per_day
    adapter = channels.find(account.channel)
    limits = [adapter.messages_per_day if adapter else None]
    if account.access == OPEN:
        limits.append(int(settings.KOMAND_OPEN_MESSAGES_PER_DAY))
    return min((limit for limit in limits if limit is not None), default=None)


def charge(account: ChannelAccount, sender_id: str) -> None:
    """Count one message of the sender, in the caller's transaction. Raises SenderBudgetUsedUp.

    One statement, and none for accounts without a budget. The row's lock keeps concurrent messages within it.
    """
    limit = messages_per_day(account)
    if limit is None:
        return
    account_id = account.pk if connection.vendor == "postgresql" else account.pk.hex
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_ONE, [account_id, sender_id, datetime.now(UTC).date(), limit])
        is_within = limit > 0 and cursor.fetchone() is not None
    if not is_within:
        raise SenderBudgetUsedUp(
            f"You have sent {limit} messages today, the limit for one sender. "
            "Write again tomorrow (UTC), or ask its operator for more."
        )


def choosable_ids(account: ChannelAccount) -> set[str]:
    """Return the ids of the agents that the account's senders may choose, as they were entered."""
    return {str(agent_id) for agent_id in account.config.get("agents") or ()}


def reachable_ids(account: ChannelAccount) -> set[str]:
    """Return the ids of the agents that answer anyone who may write to the account, or may be chosen by them."""
    routes = ChannelRoute.objects.select_related("agent", "network")
    route = routes.filter(account=account, chat_id="", sender_id="").first()
    found = {account.agent.agent_id if account.agent else "default"}
    if route and route.agent:
        found = {route.agent.agent_id}
    elif route and route.network:
        found = {*library.agents_of(yaml_format.load(route.network.definition))}
    return found | choosable_ids(account)


def list_dangers() -> Iterator[tuple[ChannelAccount, str]]:
    """Yield the enabled accounts about which an operator should know something, with the sentence."""
    for account in ChannelAccount.objects.select_related("agent").filter(is_enabled=True, access=OPEN):
        for danger in dangers(account):
            yield account, danger


def dangers(account: ChannelAccount) -> Iterator[str]:
    """Yield what an operator should know about an account that is open to everyone, one sentence each."""
    if account.access != OPEN:
        return
    if account.tools is None:
        yield "It is open to everyone and has no list of tools, so the runs of its senders get none. Give it a list."
    agent_id = account.agent.agent_id if account.agent else "default"
    found = {name: find_tool(name, agent_id) for name in account.tools or ()}
    if unknown := [name for name, tool in found.items() if tool is None]:
        yield f"Its list of tools names what this installation does not have: {', '.join(unknown)}."
    if risky := [name for name, tool in found.items() if tool and tool.spec.risk is not Risk.LOW]:
        yield f"Everyone who finds it can have its agent ask for calls of {', '.join(risky)}."
    unchecked = Agent.objects.filter(agent_id__in=reachable_ids(account), autonomy="full")
    for served in unchecked.order_by("agent_id").values_list("agent_id", flat=True):
        yield f"Everyone who finds it is served by {served}, which calls tools without approval (autonomy full)."
