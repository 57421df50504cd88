"""Networks over REST: the fields of requests and answers."""

from types import SimpleNamespace
from typing import Any

from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DictField,
    IntegerField,
    JSONField,
    ListField,
    UUIDField,
)

from agents_app.models import StoredNetwork
from agents_app.network_runs.progress import NetworkProgress
from agents_app.networks import yaml_format
from agents_app.networks.mermaid import to_mermaid
from agents_app.networks.outcomes import TaskStatus
from sessions_app.surfaces.base.model_fields import model_field
from sessions_app.surfaces.base.serializers import (
    CamelCaseSerializer,
    NullableText,
    ObjectSerializer,
    Timestamp,
    check_storable,
)


class DefinitionBody(CamelCaseSerializer):
    definition = model_field(StoredNetwork, "definition", trim_whitespace=False)


class NetworkBody(DefinitionBody):
    """A definition, under the name in it. A change keeps what it leaves out."""

    is_shared_with_everyone = BooleanField(default=False, help_text="Every user who may use its agents may run it.")


class NetworkOut(ObjectSerializer):
    name = CharField()
    version = IntegerField()
    description = CharField()
    is_shared_with_everyone = BooleanField()
    created_at = Timestamp()
    updated_at = Timestamp()


class NetworkVersionOut(ObjectSerializer):
    number = IntegerField()
    definition = CharField()
    actor = CharField()
    created_at = Timestamp()


class NetworkInFullOut(NetworkOut):
    definition = CharField()
    mermaid = CharField(help_text="Flowchart in the Mermaid language.")
    versions = ListField(child=NetworkVersionOut(), help_text="The newest 20 versions.")

    @classmethod
    def of(cls, subject: StoredNetwork, **given: Any) -> dict[str, Any]:
        mermaid = to_mermaid(yaml_format.load(subject.definition))
        versions = list(subject.versions.all()[:20])
        return super().of(subject, mermaid=mermaid, versions=versions, **given)


class RunNetworkBody(CamelCaseSerializer):
    message = CharField(max_length=10_000)
    context_ = DictField(
        default=dict,
        validators=[check_storable],
        help_text="Values for its prompts; they override those of the definition.",
    )
    session_id = CharField(
        max_length=512, default="", allow_blank=True, help_text="Id of a session. Default: a new session."
    )


class NetworkTaskOut(ObjectSerializer):
    """The state or result of a task. output: the value of a structured answer, else the text."""

    name = CharField()
    status = ChoiceField(choices=[status.value for status in TaskStatus])
    output = JSONField(allow_null=True)
    error = NullableText()
    reason = NullableText(help_text="Reason why the task was skipped.")
    attempts = IntegerField()
    iteration = IntegerField(help_text="Iteration of its loop.")


class TaskAttemptOut(ObjectSerializer):
    name = CharField(source="workstream", help_text="Label of the attempt, such as draft#2 or each[0]~2.")
    run_id = UUIDField(source="pk")
    status = CharField()
    started_at = Timestamp(allow_null=True)
    ended_at = Timestamp(allow_null=True)


class NetworkRunOut(ObjectSerializer):
    run_id = UUIDField(source="run.pk")
    session_id = CharField(source="run.session_key")
    network = CharField(source="network.name")
    version = IntegerField()
    status = CharField(source="run.status")
    answer = NullableText(source="run.answer")
    error = NullableText(source="run.error_message")
    tasks = ListField(child=NetworkTaskOut())
    attempts = ListField(child=TaskAttemptOut())
    mermaid = CharField(help_text="Flowchart that shows the state of each task by a colour.")

    @classmethod
    def of(cls, subject: NetworkProgress, **given: Any) -> dict[str, Any]:
        tasks = [SimpleNamespace(name=name, **result.to_dict()) for name, result in subject.results.items()]
        return super().of(subject, tasks=tasks, mermaid=to_mermaid(subject.network, subject.results))


class DefinitionProblemOut(ObjectSerializer):
    line = IntegerField()
    place = CharField(help_text="Place in the definition, such as tasks[2].depends_on[0].")
    message = CharField()


class DefinitionCheckOut(ObjectSerializer):
    problems = ListField(child=DefinitionProblemOut())
    mermaid = CharField(help_text="Flowchart in the Mermaid language. Empty if there are problems.")
