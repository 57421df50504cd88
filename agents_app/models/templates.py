"""Stored prompt templates, and the fields by which an agent uses one."""

from typing import Any

from django.core.validators import MaxLengthValidator
from django.db import models

from agents_app.yaml_documents import LONGEST_TEMPLATE
from audit_app.kernel.rules import CheckedJSONField, check_object


class PromptTemplate(models.Model):
    """A prompt template. It replaces the file of its name in the folder of prompts."""

    name = models.SlugField(max_length=120, unique=True, help_text="Lower-case letters, digits, `-` and `_`.")
    text = models.TextField(
        validators=[MaxLengthValidator(LONGEST_TEMPLATE)],
        help_text="Markdown with YAML front matter and tags of Jinja.",
    )
    version = models.PositiveIntegerField(default=1, editable=False, help_text="Number of the current version.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "komand_prompt_template"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class PromptTemplateVersion(models.Model):
    """The text of a template at one time."""

    template = models.ForeignKey(PromptTemplate, on_delete=models.CASCADE, related_name="versions", db_index=False)
    number = models.PositiveIntegerField()
    text = models.TextField()
    note = models.CharField(max_length=300, blank=True)
    actor = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "komand_prompt_template_version"
        constraints = [models.UniqueConstraint(fields=["template", "number"], name="template_version_once")]

    def __str__(self) -> str:
        return f"version {self.number}"


def template_field() -> Any:
    """Return the column of an agent's template."""
    text = "Prompt template in front of the system prompt, or one version of it, such as `support@3`. Empty: none."
    return models.CharField(max_length=140, blank=True, default="", db_default="", help_text=text)


def template_parameters_field() -> Any:
    """Return the column of the parameters of an agent's template."""
    return CheckedJSONField(
        rule=check_object,
        default=dict,
        db_default=models.Value({}, models.JSONField()),
        blank=True,
        help_text="Values of the template's parameters, by name.",
    )
