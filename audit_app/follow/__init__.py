"""The reading side of the live streams: one follower per web process shares its reads among all subscriptions.

It does not merge: stored events come in order from the database, live entries in order from their stream, and the
subscriber merges them.
"""

from audit_app.follow.follower import Follower, current_follower
from audit_app.follow.items import CaughtUp, Item, LiveEntry, PassingEvent
from audit_app.follow.subscription import Subscription

__all__ = ["CaughtUp", "Follower", "Item", "LiveEntry", "PassingEvent", "Subscription", "current_follower"]
