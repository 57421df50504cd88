"""Routes of channel accounts."""

from collections.abc import Collection

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from agents_app.models import Agent, StoredNetwork
from audit_app.kernel.ids import new_id
from sessions_app.models.channels import ChannelAccount


class ChannelRoute(models.Model):
    """The agent or network that answers in a chat, to a sender, or to a sender in a chat, instead of the account's."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE, related_name="routes", db_index=False)
    chat_id = models.CharField(max_length=200, blank=True, help_text="Platform id of the chat. Empty: any chat.")
    sender_id = models.CharField(max_length=200, blank=True, help_text="Platform id of the sender. Empty: any sender.")
    agent = models.ForeignKey(Agent, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    network = models.ForeignKey(
        StoredNetwork,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="Network that answers each message, instead of an agent.",
    )
    is_chosen = models.BooleanField(
        "chosen by a sender",
        default=False,
        help_text="Chosen by a sender with /agent. Used while the account lets senders choose the agent.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "komand_channel_route"
        ordering = ["account", "chat_id", "sender_id"]
        constraints = [
            models.UniqueConstraint(fields=["account", "chat_id", "sender_id"], name="channel_route_once"),
            models.CheckConstraint(
                condition=Q(agent__isnull=True, network__isnull=False) | Q(agent__isnull=False, network__isnull=True),
                name="channel_route_one_target",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.sender_id or 'anyone'} in {self.chat_id or 'any chat'}"

    def clean(self) -> None:
        """Require one target."""
        if (self.agent_id is None) == (self.network_id is None):
            raise ValidationError("A route needs either an agent or a network, not both.", code="route_target")

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        """Leave out the constraint of the target: `clean` has the same rule, with a message."""
        super().validate_constraints({*(exclude or ()), "network"})
