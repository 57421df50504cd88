"""Random faults of a whole installation: every message ends once, and every viewer has its end.

KOMAND_CHAOS_SECONDS: how long, all databases together (default 600); KOMAND_CHAOS_SEED: repeats the choices of a run.
"""

import os
import random
import sys
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from tests.chaos import verdict
from tests.chaos.live_faults_support import open_installation
from tests.chaos.load import Load
from tests.fakes.model_server import ModelServer
from tests.fakes.telegram import FakeTelegram
from tests.support.postgres import find_install, open_postgres

SECONDS = float(os.environ.get("KOMAND_CHAOS_SECONDS", "600"))
SEED = int(os.environ.get("KOMAND_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(SECONDS + 600)]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_every_message_ends_once_and_every_viewer_has_its_end(
    tmp_path: Path, model_server: ModelServer, kind: str
) -> None:
    if kind == "postgresql" and find_install() is None:
        pytest.skip("no PostgreSQL for this platform: chaos on it is NOT tested")
    sys.stdout.write(f"\nchaos on {kind}, seed {SEED} (KOMAND_CHAOS_SEED={SEED} repeats its choices)\n")
    with (
        open_postgres(synchronous_commit="on") if kind == "postgresql" else nullcontext() as server,
        FakeTelegram() as telegram,
        open_installation(tmp_path, model_server, server.url if server else "", KOMAND_RUN_WORKERS="2") as host,
        closing(Load(host, SEED, telegram, server)) as load,
    ):
        try:
            load.run(SECONDS / 2)
            load.settle()
            sys.stdout.write(f"  {verdict.summary(load)}\n")
            verdict.judge(load)
        except BaseException:
            sys.stdout.write(f"  seed {SEED}, broken: {', '.join(load.deeds)}\n")
            sys.stdout.write(host.komand.log.read_text(errors="replace")[-20_000:])
            raise
