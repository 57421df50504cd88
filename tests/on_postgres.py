"""Runs the integration tests on PostgreSQL: `python -m tests.on_postgres [pytest options]`.

On the server of KOMAND_TEST_DATABASE_URL, else on one started for this run alone. All integration tests run there when
KOMAND_ALL_ON_POSTGRES is set, as CI does. Without it those of _IN_CI_ALONE are left out, to save minutes: they are
about processes, sockets, pages and shapes, and store nothing that another test does not.
"""

import os
import signal
import subprocess
import sys
from contextlib import nullcontext

from tests.support.postgres import find_install, run_postgres

VARIABLE = "KOMAND_TEST_DATABASE_URL"
_TESTS = ("tests/integration", "tests/chaos")
_IN_CI_ALONE = (
    "admin",
    "agents_app/test_busy_sessions.py",
    "agents_app/test_openai_provider.py",
    "agents_app/test_openai_settings.py",
    "channels/test_channels_live.py",
    "channels/test_previews.py",
    "komand/test_asgi.py",
    "komand/test_demo_trust.py",
    "komand/test_mcp_live.py",
    "komand/test_middleware.py",
    "komand/test_openapi.py",
    "komand/test_up.py",
    "komand/test_web_server.py",
    "sessions_app/test_agent_frames.py",
    "sessions_app/test_agent_runs.py",
    "sessions_app/test_agent_streams.py",
    "sessions_app/test_chat_actions.py",
    "sessions_app/test_chat_files.py",
    "sessions_app/test_chat_login.py",
    "sessions_app/test_chat_pages.py",
    "sessions_app/test_mcp_surface.py",
    "sessions_app/test_odd_input.py",
    "sessions_app/test_recorded_frames.py",
    "sessions_app/test_rest_access.py",
    "sessions_app/test_rest_agents.py",
    "sessions_app/test_rest_auth.py",
    "sessions_app/test_rest_credentials.py",
    "sessions_app/test_rest_errors.py",
    "sessions_app/test_rest_live.py",
    "sessions_app/test_rest_mcp.py",
    "sessions_app/test_rest_policy.py",
    "sessions_app/test_rest_receipts.py",
    "sessions_app/test_rest_sessions.py",
    "sessions_app/test_rest_skills.py",
    "sessions_app/test_staying.py",
    "sessions_app/test_surface_access.py",
    "sessions_app/test_threads_access.py",
    "sessions_app/test_threads_socket.py",
    "sessions_app/test_tickets.py",
    "sessions_app/test_tool_choice.py",
    "tools_app/test_bad_tools.py",
    "tools_app/test_guard.py",
    "tools_app/test_http_request.py",
    "tools_app/test_mcp_connection.py",
    "tools_app/test_mcp_servers.py",
    "tools_app/test_python_tool.py",
    "tools_app/test_skills.py",
    "tools_app/test_web_fetch.py",
    "tools_app/test_worker.py",
)
_CHOSEN = "not sqlite_only and not browser and not chaos"


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is ended too
    given = os.environ.get(VARIABLE)
    if not given and find_install() is None:
        sys.stdout.write(f"SKIPPED: there is no PostgreSQL for this platform; set {VARIABLE} to run these tests\n")
        return 0
    with nullcontext(given) if given else run_postgres() as url:
        names = () if os.environ.get("KOMAND_ALL_ON_POSTGRES") else _IN_CI_ALONE
        left_out = [f"--ignore=tests/integration/{name}" for name in names]
        command = [sys.executable, "-m", "pytest", *_TESTS, *left_out, "-m", _CHOSEN, *sys.argv[1:]]
        return subprocess.run(command, env={**os.environ, VARIABLE: url}).returncode


if __name__ == "__main__":
    sys.exit(main())
