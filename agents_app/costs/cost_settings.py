"""Changes of the prices of models, and of the cost caps of users. Each is audited."""

from django.contrib.auth.models import User
from django.db import transaction

from agents_app.models import ModelPrice, ModelProvider, UserCostCap
from agents_app.types.prices import Price
from audit_app import services as audit
from audit_app.kernel.errors import NotFound
from audit_app.kernel.rules import check_row


def list_prices() -> list[ModelPrice]:
    """Return all prices of models, by provider and name."""
    return list(ModelPrice.objects.select_related("provider").order_by("provider__name", "model"))


def get_price(provider: str, model: str) -> ModelPrice:
    """Return the price of a model, or of a pattern, as it is stored. Raises NotFound."""
    found = ModelPrice.objects.select_related("provider").filter(provider__name=provider, model=model).first()
    if found is None:
        raise NotFound("This model has no price of its own.", code="unknown_price")
    return found


def set_price(provider: str, model: str, price: Price) -> ModelPrice:
    """Store the price of a model, or of a pattern of models, for runs that are claimed from now on.

    Raises NotFound (unknown_provider), InvalidInput.
    """
    owner = ModelProvider.objects.filter(name=provider).first()
    if owner is None:
        raise NotFound("There is no such model provider.", code="unknown_provider")
    fields = {"input_price": price.input, "cached_input_price": price.cached_input, "output_price": price.output}
    check_row(ModelPrice(model=model, **fields))
    with transaction.atomic():
        row, _ = ModelPrice.objects.update_or_create(provider=owner, model=model, defaults=fields)
        audit.record("ModelPriceSet", details={"provider": provider, "model": model, **fields})
    return row


def delete_price(provider: str, model: str) -> None:
    """Delete the price of a model: those of its provider apply. Raises NotFound."""
    with transaction.atomic():
        get_price(provider, model).delete()
        audit.record("ModelPriceDeleted", details={"provider": provider, "model": model})


def set_user_caps(user_id: int, *, per_day: float | None, per_month: float | None) -> None:
    """Store the caps of a user. None: the cap that the settings give each user; 0: no cap.

    Raises NotFound, InvalidInput.
    """
    if not User.objects.filter(pk=user_id).exists():
        raise NotFound("There is no such user.", code="unknown_user")
    caps = {"per_day": per_day, "per_month": per_month}
    check_row(UserCostCap(**caps))
    with transaction.atomic():
        if per_day is None and per_month is None:
            UserCostCap.objects.filter(pk=user_id).delete()
        else:
            UserCostCap.objects.update_or_create(pk=user_id, defaults=caps)
        audit.record("UserCostCapSet", details={"user": user_id, **caps})
