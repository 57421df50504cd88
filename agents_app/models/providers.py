"""Model providers."""

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models

from agents_app.models.costs import price_field
from agents_app.types.prices import EARLIER_UNSET, Price

# The kind of the built-in provider without a model.
DEMO = "demo"
_ADDRESS = RegexValidator(r"^https?://", "The address must begin with http:// or https://.")


class ModelProvider(models.Model):
    """An endpoint that serves models. Its API key is encrypted by the vault and never shown again."""

    INLINE_REASONING = [
        ("", "at the beginning, in tags such as <think>…</think>"),
        ("prefilled", "everything up to </think>: the server does not send the opening tag"),
        ("off", "nothing: the tags are a part of the answer"),
    ]
    PARTS = [
        ("", "what its models are known to accept"),
        ("none", "none"),
        ("image", "images"),
        ("audio", "audio"),
        ("file", "PDF files"),
        ("image,file", "images and PDF files"),
        ("image,audio", "images and audio"),
        ("audio,file", "audio and PDF files"),
        ("image,audio,file", "images, audio and PDF files"),
    ]

    name = models.SlugField(max_length=60, unique=True)
    kind = models.CharField(max_length=40, help_text="Registered kind of provider, such as openai or demo.")
    base_url = models.CharField(
        max_length=500,
        blank=True,
        validators=[_ADDRESS],
        help_text="Leave empty for the provider's own, which is https://api.openai.com/v1 for the kinds of OpenAI.",
    )
    api_key_sealed = models.TextField(blank=True, editable=False)
    default_model = models.CharField(max_length=200, blank=True)
    input_price = price_field(
        "Price per 1,000 input tokens. Leave both empty if you do not know them: budgets and caps skip the calls then.",
        null=True,
        blank=True,
    )
    output_price = price_field("Price per 1,000 output tokens.", null=True, blank=True)
    accepted_parts = models.CharField(
        "Accepted files",
        max_length=20,
        choices=PARTS,
        blank=True,
        default="",
        db_default="",
        help_text="Files of messages that its models accept. Others are described in words.",
    )
    transcription_model = models.CharField(
        max_length=200,
        blank=True,
        default="",
        db_default="",
        help_text="Model that transcribes audio, such as whisper-1. Empty: audio that its models do not take is not "
        "transcribed, unless a channel account chooses it, nor that of clients.",
    )
    embedding_model = models.CharField(
        max_length=200,
        blank=True,
        default="",
        db_default="",
        help_text="Model that turns texts into vectors for clients, such as text-embedding-3-small. Empty: none.",
    )
    inline_reasoning = models.CharField(
        "Hide reasoning in the text",
        max_length=10,
        choices=INLINE_REASONING,
        blank=True,
        default="",
        db_default="",
        help_text="Reasoning that models of the kind openai write into their answer is shown apart from it.",
    )
    is_enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "komand_model_provider"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def price(self) -> Price | None:
        """Return the price of models without one of their own; None if an operator has set none."""
        if self.input_price is None or self.output_price is None:
            return None
        price = Price(self.input_price, self.output_price)
        return None if price == EARLIER_UNSET else price

    def clean(self) -> None:
        """Require both prices or none."""
        if (self.input_price is None) != (self.output_price is None):
            raise ValidationError("Enter both prices, or none.", code="one_price")
