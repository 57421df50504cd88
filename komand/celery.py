"""The Celery app: two queues, `runs` (nudges the engine) and `tools` (executes tools under hard time limits).

`komand/worker.py` is the command of a worker.
"""

import os
import warnings
from typing import Any

from billiard.process import current_process
from celery import Celery, signals
from celery.exceptions import SecurityWarning
from django.conf import settings

from audit_app.kernel import context, liveness, shutdown
from komand import consumer_watch, schema_check, sd_notify

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.worker")
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")  # `manage.py prepare` has run them
_GRACE_SECONDS = 2


app = Celery("komand", set_as_current=True)
app.add_defaults(lambda: dict(settings.CELERY))
app.set_default()
app.steps["consumer"].add(consumer_watch.WatchStep)
# Celery warns of running as root, since messages could once be pickles. Ours are JSON only.
warnings.filterwarnings("ignore", category=SecurityWarning)


@signals.setup_logging.connect
def _keep_our_logging(**_: Any) -> None:
    """Keep Celery from configuring logging: a receiver of this signal is enough."""


@signals.task_prerun.connect
def _bind_request(task: Any, **_: Any) -> None:
    """Bind the id of the request that caused a task, so that its log lines and events carry it."""
    headers = task.request.headers or {}
    context.request_id.set(headers.get("request_id") or "")


@signals.worker_init.connect
def _check_schema(**_: Any) -> None:
    schema_check.require()


@signals.worker_ready.connect
def _notify_ready(**_: Any) -> None:
    sd_notify.notify_ready()
    sd_notify.show_life(lambda: liveness.is_stuck() or consumer_watch.is_stuck())


@signals.worker_process_init.connect
def _begin_child(**_: Any) -> None:
    """Give a prefork child its own heartbeat and let it die with its worker. The solo pool sends this signal, too."""
    if current_process().name != "MainProcess":
        sd_notify.die_with_parent()
        liveness.start("tools")


@signals.worker_shutting_down.connect
def _limit_drain(sig: str, **_: Any) -> None:
    consumer_watch.end()
    if sig == "SIGINT":
        shutdown.hurry()
    sd_notify.end_after(shutdown.seconds() + _GRACE_SECONDS)
