"""Settings that benchmarks, chaos tests, crash tests and running test installations change, each with its reason.

Everything else there is the default of an installation. `tests/architecture/test_changed_settings.py` holds the lists:
a name of a setting or of a constant that is assigned and not listed is an error, and so is one that is listed in vain.
"""

# Of every installation that a test or a benchmark starts, by environment variable.
NO_RATE = "1000000/60"
RATES = {
    "KOMAND_RATE_API": NO_RATE,
    "KOMAND_RATE_CHAT": NO_RATE,
    "KOMAND_RATE_LOGIN": NO_RATE,
    "KOMAND_RATE_SENDER": NO_RATE,
    "KOMAND_MAX_RUNNING_PER_USER": "0",
}

_OF_BUCKET = ("BUCKET", "ENDPOINT", "REGION", "PREFIX", "ACCESS_KEY", "SECRET_KEY")

# environment variable -> the reason. Their values stand where the installation is started.
INSTALLATIONS = {
    **dict.fromkeys(RATES, "One client sends what a hundred people send. The limits have tests of their own."),
    "KOMAND_DATA_DIR": "A folder of its own, so that nothing of the developer's is touched.",
    "KOMAND_MODEL": "The fake model server has one model.",
    "KOMAND_CALLBACK_ALLOW_PRIVATE": "The receiver of callbacks is on this machine.",
    "KOMAND_FETCH_ALLOW_PRIVATE": "The pages that a test fetches are on this machine.",
    "KOMAND_CORS_ORIGINS": "The site whose pages show the component has a port of its own.",
    "KOMAND_FRESH_LOGIN_MINUTES": "The browsers of a package share one login, for longer than ten minutes.",
    "KOMAND_PUBLIC_URL": "The installation that deploy/ describes has one.",
    "KOMAND_SOCKETS": "Its unit's folder is one of the test, instead of /run.",
    **dict.fromkeys((f"KOMAND_S3_{name}" for name in _OF_BUCKET), "The files of hosts without a common folder."),
    "KOMAND_WAIT_SECONDS": "A request waits for its answer on a busy machine, too.",
    "KOMAND_RUN_WORKERS": "Faults hit the only worker, whose restart is then waited for, or one of two.",
}

# setting, of tests in one process -> the reason.
ONE_PROCESS = {
    "KOMAND_API_LIMIT": "One client sends what a hundred people send.",
    "KOMAND_CHAT_LIMIT": "One client sends what a hundred people send.",
    "KOMAND_SENDER_LIMIT": "One sender writes what a hundred senders write.",
    "KOMAND_BURST_MS": "Each message is a run. Joined messages: test_sender_limits and tests/installed.",
    "KOMAND_DRAIN_SECONDS": "A test that stops the engine in the middle of a run wants the run left, not ended.",
    "KOMAND_MAX_ANSWER_CHARACTERS": "A test of the longest answer need not write 200,000 characters.",
    "KOMAND_CALLBACK_ALLOW_PRIVATE": "The receiver of callbacks is on this machine.",
    "KOMAND_MCP_OFFERS": "The conformance suite wants its own tools, resources and prompts beside ours.",
    "KOMAND_REDIS_URL": "The test makes Valkey unreachable.",
}

# constant of a module, of tests in one process -> the reason.
CONSTANTS = {
    "LOST_NUDGE_SECONDS": "A crash point loses the nudge; the sweep that finds it need not wait for its age.",
    "RENUDGE_SECONDS": "As above: the run is nudged again at once.",
    "AGAIN_AFTER": "As above: a run that waits for its budget looks again at once.",
    "_STOPPED_SECONDS": "Work that a stopping engine abandons stays in this process and gets time to end.",
    "_CHORES_END_SECONDS": "As above.",
}
