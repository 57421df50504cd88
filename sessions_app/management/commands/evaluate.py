"""`manage.py evaluate`: sends the cases of a file to an agent and checks the answers; or makes cases from runs."""

import json
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from agents_app import selectors as agents
from agents_app.configuration.agent_versions import get_version
from agents_app.costs.usage_ledger import Payer
from agents_app.models import Agent, ModelProvider
from agents_app.types import Usage
from audit_app import services as audit
from audit_app.kernel.ids import new_id
from audit_app.management.app_command import AppCommand
from sessions_app.evaluation import dataset, report
from sessions_app.evaluation.cases import Case, read_cases, write_cases
from sessions_app.evaluation.checks import Outcome, faults_of
from sessions_app.evaluation.judge import Judge, judge
from sessions_app.evaluation.report import Column, Result
from sessions_app.evaluation.runner import ACTOR, Evaluation, run_cases

_NOTE = (
    "# From real conversations: they may contain personal data. Check, change and delete cases before you share them.\n"
)


class Command(AppCommand):
    help = "Send cases to an agent, check the answers, and compare two of its versions. The installation has to run."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("agent", metavar="AGENT", help="Public id of the agent.")
        parser.add_argument("cases", metavar="CASES", nargs="?", type=Path, help="YAML file of cases.")
        parser.add_argument("--from-runs", type=int, metavar="N", help="Write the file from the N newest runs instead.")
        parser.add_argument(
            "--with",
            dest="version_number",
            type=int,
            metavar="N",
            help="Version to evaluate. Default: the published one.",
        )
        parser.add_argument("--against", type=int, metavar="N", help="Version to compare with.")
        parser.add_argument("--user", help="Owner of the sessions, who may use the agent.")
        parser.add_argument(
            "--judge", metavar="PROVIDER[/MODEL]", help="Model that judges answers. Default: that of the agent."
        )
        parser.add_argument("--allow-changes", action="store_true", help="Allow tools that change something.")
        parser.add_argument("--keep", action="store_true", help="Keep the sessions afterwards.")
        parser.add_argument("--parallel", type=int, default=4, metavar="N", help="Number of concurrent cases.")
        parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS", help="Time limit of one answer.")
        parser.add_argument("--json", action="store_true", help="Write the report as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Exit with 1 if a case fails; with --against, if one fails that passes with that version."""
        agent = agents.get_agent(options["agent"])
        if options["from_runs"] is not None:
            self._write_cases(agent, options["from_runs"])
            return
        cases = read_cases(self._read(options["cases"]))
        evaluations = [self._evaluation(agent, options, version) for version in _versions(agent, options)]
        chosen = _judge(options["judge"], agent)
        columns = [self._column(evaluation, cases, chosen) for evaluation in evaluations]
        worse = report.worse(*columns) if len(columns) > 1 else []
        self._show(columns, worse, as_json=options["json"])
        if worse or (len(columns) == 1 and columns[0].passed < len(cases)):
            sys.exit(1)

    def _write_cases(self, agent: Agent, count: int) -> None:
        cases = list(dataset.cases_from_runs(agent, limit=max(count, 0)))
        details = {"count": len(cases)}
        audit.record("EvaluationCasesExported", agent_id=agent.agent_id, actor="system", details=details)
        self.stdout.write(_NOTE + write_cases(cases), ending="")

    @staticmethod
    def _read(file: Path | None) -> str:
        if file is None:
            raise CommandError("Give a file with cases, or write one with --from-runs.")
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{file} cannot be read: {error}") from None

    @staticmethod
    def _evaluation(agent: Agent, options: dict[str, Any], version: int | None) -> Evaluation:
        return Evaluation(
            agent,
            _owner(options["user"]),
            version,
            options["allow_changes"],
            options["keep"],
            max(1, options["parallel"]),
            options["timeout"],
        )

    def _column(self, evaluation: Evaluation, cases: tuple[Case, ...], chosen: Judge) -> Column:
        version = evaluation.version
        title = f"version {evaluation.agent.version if version is None else version}"
        outcomes = run_cases(evaluation, cases, lambda case, outcome: self._progress(title, case, outcome))
        used, results = Usage(), []
        for case, outcome in zip(cases, outcomes, strict=True):
            faults = list(faults_of(case, outcome))
            if case.judge and not outcome.failure:
                fault, usage = judge(chosen, case, outcome)
                used, faults = used + usage, [*faults, *filter(None, [fault])]
            results.append(Result(case.name, outcome, tuple(faults)))
        if used != Usage():
            self.stderr.write(f"{title}: the judge used {used.input_tokens:,} / {used.output_tokens:,} tokens")
        return Column(title, tuple(results))

    def _progress(self, title: str, case: Case, outcome: Outcome) -> None:
        self.stderr.write(f"{title}: {case.name}: {outcome.failure or f'answered in {outcome.seconds:.1f} s'}")

    def _show(self, columns: list[Column], worse: list[str], *, as_json: bool) -> None:
        if as_json:
            shown = {"versions": [column.to_dict() for column in columns], "worse": worse}
            self.stdout.write(json.dumps(shown, indent=2, ensure_ascii=False))
            return
        for line in report.lines(columns, settings.KOMAND_CURRENCY):
            self.stdout.write(line)
        if len(columns) > 1:
            self.stdout.write(f"Worse than {columns[1].title}: {', '.join(worse) or 'nothing'}.")


def _versions(agent: Agent, options: dict[str, Any]) -> list[int | None]:
    """Return the versions to evaluate, None for the published one. Raises NotFound for one that does not exist."""
    wanted = [options["version_number"], *([] if options["against"] is None else [options["against"]])]
    for number in wanted:
        if number is not None:
            get_version(agent, number)
    return wanted


def _owner(name: str | None) -> User:
    owner = User.objects.filter(is_active=True, username=name or "").first()
    if owner is None:
        raise CommandError(
            f"There is no active user {name!r}." if name else "Give the owner of the sessions with --user."
        )
    return owner


def _judge(name: str | None, agent: Agent) -> Judge:
    payer = Payer(new_id(), agent.agent_id, ACTOR)
    if not name:
        return Judge(agent.provider, agent.model_id, payer)
    provider_name, _, model = name.partition("/")
    provider = ModelProvider.objects.filter(name=provider_name, is_enabled=True).first()
    if provider is None:
        raise CommandError(f"There is no model provider {provider_name!r}.")
    return Judge(provider, model, payer)
