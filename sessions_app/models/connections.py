"""The connections over which channel accounts receive without a webhook."""

from django.db import models

from sessions_app.models.channels import ChannelAccount


class ChannelConnection(models.Model):
    """The connection of an account that receives without a webhook: its holder, its cursor and its state.

    `heartbeat_at` lags behind by up to half a minute.
    """

    account = models.OneToOneField(
        ChannelAccount, primary_key=True, on_delete=models.CASCADE, related_name="connection"
    )
    holder = models.UUIDField(null=True, help_text="Process that keeps it open.")
    cursor = models.TextField(blank=True, help_text="Position in the platform's stream from which to resume.")
    connected_at = models.DateTimeField(null=True, help_text="Empty while there is no connection.")
    heartbeat_at = models.DateTimeField(null=True, help_text="Time of the last bytes or answer from the platform.")
    event_at = models.DateTimeField(null=True, help_text="Time of the last event.")
    error = models.CharField(max_length=500, blank=True, help_text="Reason why there is no connection.")
    error_at = models.DateTimeField(null=True)
    attention_at = models.DateTimeField(null=True, help_text="Set while it waits for an operator.")

    class Meta:
        db_table = "komand_channel_connection"

    def __str__(self) -> str:
        return f"connection of {self.account}"
