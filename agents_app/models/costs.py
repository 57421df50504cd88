"""Prices of models and records of usage. Costs are whole billionths of one unit of the installation's currency."""

from typing import Any

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from agents_app.types.prices import Price

_LIMITS = (MinValueValidator(0), MaxValueValidator(10**12))
_PRICE_LIMITS = (MinValueValidator(0), MaxValueValidator(10**6))  # so that the cost of a call fits into its column


def price_field(help_text: str, **options: Any) -> Any:
    """Return the column of a price per 1,000 tokens."""
    return models.FloatField(validators=_PRICE_LIMITS, help_text=help_text, **options)


def _cap_field(setting: str) -> Any:
    help_text = f"In whole units, in UTC. Empty: {setting}. 0: no cap."
    return models.FloatField(null=True, blank=True, validators=_LIMITS, help_text=help_text)


class ModelPrice(models.Model):
    """The prices of one model of a provider, or of those that a pattern names."""

    provider = models.ForeignKey(
        "agents_app.ModelProvider", on_delete=models.CASCADE, related_name="model_prices", db_index=False
    )
    model = models.CharField(max_length=200, help_text="Name of the model, or a pattern such as gpt-5* or *.")
    input_price = price_field("Per 1,000 input tokens: a price per million, divided by 1,000.")
    cached_input_price = price_field(
        "Per 1,000 input tokens that the server had cached. Empty: as other input.", null=True, blank=True
    )
    output_price = price_field("Per 1,000 output tokens, which include reasoning.")

    class Meta:
        db_table = "komand_model_price"
        ordering = ["model"]
        constraints = [models.UniqueConstraint(fields=["provider", "model"], name="model_price_once")]

    def __str__(self) -> str:
        return f"{self.model}: {self.input_price:g} in, {self.output_price:g} out"

    @property
    def price(self) -> Price:
        return Price(self.input_price, self.output_price, self.cached_input_price)


class DailyUsage(models.Model):
    """The usage of one model in one session on one day (UTC), by agent and actor.

    Written by the transaction that records the model call. Only runs of the session write it, one after the other, so
    no two of them wait for each other.
    """

    id = models.BigAutoField(primary_key=True)
    day = models.DateField()
    conversation_id = models.UUIDField()
    agent_id = models.CharField(max_length=120)
    actor = models.CharField(max_length=200)
    provider = models.CharField(max_length=60)
    model = models.CharField(max_length=200)
    calls = models.BigIntegerField(default=0)
    unpriced_calls = models.BigIntegerField(default=0)
    input_tokens = models.BigIntegerField(default=0)
    cached_input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    reasoning_tokens = models.BigIntegerField(default=0)
    cost_nanos = models.BigIntegerField(default=0)

    class Meta:
        db_table = "komand_daily_usage"
        verbose_name = "cost"
        constraints = [
            models.UniqueConstraint(
                fields=["day", "conversation_id", "agent_id", "actor", "provider", "model"], name="daily_usage_once"
            )
        ]
        indexes = [models.Index(fields=["actor", "day"], name="daily_usage_actor")]  # a user's own usage

    def __str__(self) -> str:
        return f"{self.model} on {self.day}"


class CostTotal(models.Model):
    """The cost of a day (UTC) that caps are compared with: of the installation, of an agent or of a user.

    scope: `installation`, `agent:<public id>`, which counts workstreams of other agents too, or `user:<id>`. Rows older
        than two months are deleted, so few are read.
    shard: sessions are spread over some rows, so that their transactions rarely wait for each other.
    """

    id = models.BigAutoField(primary_key=True)
    scope = models.CharField(max_length=200)
    day = models.DateField()
    shard = models.SmallIntegerField()
    cost_nanos = models.BigIntegerField(default=0)

    class Meta:
        db_table = "komand_cost_total"
        constraints = [models.UniqueConstraint(fields=["scope", "day", "shard"], name="cost_total_once")]
        indexes = [models.Index(fields=["day"], name="cost_total_day")]  # retention

    def __str__(self) -> str:
        return f"{self.scope} on {self.day}"


class UserCostCap(models.Model):
    """Cost caps of one user, in place of those that the settings give each user."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+")
    per_day = _cap_field("KOMAND_USER_COST_PER_DAY")
    per_month = _cap_field("KOMAND_USER_COST_PER_MONTH")

    class Meta:
        db_table = "komand_user_cost_cap"
        verbose_name = "cost cap"

    def __str__(self) -> str:
        return f"cost caps of user {self.pk}"


class CostAlert(models.Model):
    """An alert that was sent, so that it is sent once: a cap is `near` its limit, or has `reached` it."""

    id = models.BigAutoField(primary_key=True)
    scope = models.CharField(max_length=200)
    period = models.CharField(max_length=5, help_text="day or month")
    day = models.DateField(help_text="First day of the period.")
    level = models.CharField(max_length=8)

    class Meta:
        db_table = "komand_cost_alert"
        constraints = [models.UniqueConstraint(fields=["scope", "period", "day", "level"], name="cost_alert_once")]
        indexes = [models.Index(fields=["day"], name="cost_alert_day")]  # retention

    def __str__(self) -> str:
        return f"{self.scope} {self.level} in the {self.period} of {self.day}"


class Spending(models.Model):
    """The cost of an agent's model calls within one minute. Stored only for agents with a cost budget."""

    id = models.BigAutoField(primary_key=True)
    agent = models.ForeignKey("agents_app.Agent", on_delete=models.CASCADE, related_name="+", db_index=False)
    minute = models.DateTimeField()
    cost = models.FloatField()

    class Meta:
        db_table = "komand_spending"
        constraints = [models.UniqueConstraint(fields=["agent", "minute"], name="spending_once_per_minute")]

    def __str__(self) -> str:
        return f"{self.cost} at {self.minute:%H:%M}"
