"""The tables of sessions_app: sessions and turns, keys and tokens, channels."""

from sessions_app.models.attachments import Attachment
from sessions_app.models.channels import (
    IS_OPEN,
    ChannelAccount,
    Delivery,
    InboundKey,
    InboundMessage,
    Pairing,
    SenderDay,
)
from sessions_app.models.identity import ApiKey, ExternalIdentity, Login, RecoveryCode, RefreshToken, SecondFactor
from sessions_app.models.sessions import Branch, Session, Turn
from sessions_app.models.threads import Feedback, MessageExtras

__all__ = [
    "IS_OPEN",
    "ApiKey",
    "Attachment",
    "Branch",
    "ChannelAccount",
    "Delivery",
    "ExternalIdentity",
    "Feedback",
    "InboundKey",
    "InboundMessage",
    "Login",
    "MessageExtras",
    "Pairing",
    "RecoveryCode",
    "RefreshToken",
    "SecondFactor",
    "SenderDay",
    "Session",
    "Turn",
]
