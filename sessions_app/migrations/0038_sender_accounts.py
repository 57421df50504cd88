"""Names the account in the actors of senders, unless the platform proves who has written.

What belongs to `sender:Web:42` becomes that of `sender:Web/shop:42`: schedules and usage by their sessions, memories if 42
has written at one account alone. Memories of an id that has written at several accounts stay as they are and are not
read any more: they may be those of several people.
"""

import logging
from collections import defaultdict

from django.db import migrations
from django.db.models import Exists, OuterRef

from audit_app.full_text import index
from sessions_app.platforms.sender_actors import at_account, find_channel

logger = logging.getLogger(__name__)
_AT_ONCE = 500


def name_accounts(apps, schema_editor):
    _name_in_schedules(apps)
    _name_in_usage(apps)
    _name_in_memories(apps)


def _parts(items):
    items = list(items)
    return (items[at : at + _AT_ONCE] for at in range(0, len(items), _AT_ONCE))


def _name_in_schedules(apps):
    rows = apps.get_model("sessions_app", "Schedule").objects.filter(created_by__startswith="sender:")
    places = rows.exclude(session=None).values_list("pk", "created_by", "session__channel", "session__account_id")
    for pk, actor, channel, account_id in places:
        rows.filter(pk=pk).update(created_by=at_account(actor, channel, account_id))


def _name_in_usage(apps):
    """A call is charged to a session, so its account is known. Usage of an earlier run of this migration stays."""
    Usage, Session = apps.get_model("agents_app", "DailyUsage"), apps.get_model("sessions_app", "Session")
    rows = Usage.objects.filter(actor__startswith="sender:")
    names = ("day", "conversation_id", "agent_id", "provider", "model")
    for pairs in _parts(rows.order_by().values_list("actor", "conversation_id").distinct()):
        ids = {session_id for _, session_id in pairs}
        places = {pk: place for pk, *place in Session.objects.filter(pk__in=ids).values_list("pk", "channel", "account_id")}
        for actor, session_id in pairs:
            named = at_account(actor, *places[session_id]) if session_id in places else actor
            if named != actor:
                taken = Usage.objects.filter(actor=named, **{name: OuterRef(name) for name in names})
                rows.filter(~Exists(taken), actor=actor, conversation_id=session_id).update(actor=named)


def _name_in_memories(apps):
    Memory = apps.get_model("tools_app", "Memory")
    rows = Memory.objects.filter(actor__startswith="sender:")
    former = filter(_is_former, rows.order_by().values_list("actor", flat=True).distinct())
    moved, left = [], 0
    for actors in _parts(former):
        accounts = _accounts_of(apps, actors)
        for actor in actors:
            if len(accounts[actor]) == 1:
                moved += _move(Memory, actor, *accounts[actor])
            else:
                left += rows.filter(actor=actor).count()
    index.remove(moved)  # they are indexed anew in the background
    if left:
        logger.warning("%s memories are of ids that have written at several accounts; see docs/memory.md", left)


def _is_former(actor):
    channel = actor.split(":")[1]
    return "/" not in channel and at_account(actor, channel, "") != actor


def _move(Memory, actor, account_id):
    named = at_account(actor, actor.split(":")[1], account_id)
    taken = Memory.objects.filter(actor=named, agent_id=OuterRef("agent_id"), key=OuterRef("key"))
    found = list(Memory.objects.filter(~Exists(taken), actor=actor).values_list("pk", flat=True))
    Memory.objects.filter(pk__in=found).update(actor=named)
    return found


def _accounts_of(apps, actors):
    """Return the ids of the accounts at which senders have written; if nobody knows, that of the only account."""
    Session, ids = apps.get_model("sessions_app", "Session"), {actor.split(":", 2)[2] for actor in actors}
    places = list(_places_of_memories(apps, actors))  # also those of groups, whose sessions name no sender
    for channel, sender_id, *account in (
        Session.objects.filter(sender_id__in=ids).order_by().values_list("channel", "sender_id", "account_id").distinct()
    ):
        places.append((f"sender:{channel}:{sender_id}", channel, *account))
    accounts = defaultdict(set)
    for actor, channel, account_id in places:
        if actor.split(":")[1] == channel:
            accounts[actor].add(account_id)
    return {actor: accounts[actor] or _only_account(apps, actor.split(":")[1]) for actor in actors}


def _places_of_memories(apps, actors):
    """Yield the actor, the channel and the account of each memory whose run is known."""
    Memory, Run = apps.get_model("tools_app", "Memory"), apps.get_model("agents_app", "Run")
    Session = apps.get_model("sessions_app", "Session")
    for written in _parts(Memory.objects.filter(actor__in=actors).order_by().values_list("actor", "run_id").distinct()):
        runs = dict(Run.objects.filter(pk__in=[run for _, run in written]).values_list("pk", "conversation_id"))
        sessions = Session.objects.filter(pk__in=set(runs.values())).values_list("pk", "channel", "account_id")
        places = {pk: place for pk, *place in sessions}
        for actor, run in written:
            if runs.get(run) in places:
                yield (actor, *places[runs[run]])


def _only_account(apps, channel):
    """Return the id of the only account that the channel has and had, nothing if there are several or none."""
    Session, Account = apps.get_model("sessions_app", "Session"), apps.get_model("sessions_app", "ChannelAccount")
    adapter = find_channel(channel)
    found = set(Session.objects.filter(channel=channel).order_by().values_list("account_id", flat=True).distinct())
    if adapter is not None:
        found |= set(Account.objects.filter(channel=adapter.slug).values_list("account_id", flat=True))
    return found if len(found) == 1 else set()


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0037_answer_digests'),
        ('agents_app', '0032_unset_prices'),
        ('tools_app', '0018_rules_of_credentials_and_servers'),
        ('audit_app', '0006_full_text'),
    ]

    operations = [
        migrations.RunPython(name_accounts, migrations.RunPython.noop),
    ]
