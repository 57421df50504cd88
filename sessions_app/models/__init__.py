"""The tables of sessions_app: sessions and turns, keys and tokens, channels, schedules, push."""

from sessions_app.models.attachments import Attachment
from sessions_app.models.channel_routes import ChannelRoute
from sessions_app.models.channels import (
    IS_OPEN,
    ChannelAccount,
    Delivery,
    GroupMessage,
    InboundKey,
    InboundMessage,
    Pairing,
    SenderDay,
)
from sessions_app.models.connections import ChannelConnection
from sessions_app.models.identity import ApiKey, ExternalIdentity, Login, RecoveryCode, RefreshToken, SecondFactor
from sessions_app.models.push import PushNotice, PushSubscription
from sessions_app.models.schedules import Schedule, ScheduleTick
from sessions_app.models.sender_links import IS_LINKED, SenderLink
from sessions_app.models.sessions import Branch, Checkpoint, Session, Turn
from sessions_app.models.share_links import ShareLink
from sessions_app.models.task_pushes import TaskPush
from sessions_app.models.threads import Feedback, MessageExtras
from sessions_app.models.user_files import UserFile

__all__ = [
    "IS_LINKED",
    "IS_OPEN",
    "ApiKey",
    "Attachment",
    "Branch",
    "ChannelAccount",
    "ChannelConnection",
    "ChannelRoute",
    "Checkpoint",
    "Delivery",
    "ExternalIdentity",
    "Feedback",
    "GroupMessage",
    "InboundKey",
    "InboundMessage",
    "Login",
    "MessageExtras",
    "Pairing",
    "PushNotice",
    "PushSubscription",
    "RecoveryCode",
    "RefreshToken",
    "Schedule",
    "ScheduleTick",
    "SecondFactor",
    "SenderDay",
    "SenderLink",
    "Session",
    "ShareLink",
    "TaskPush",
    "Turn",
    "UserFile",
]
