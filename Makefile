# Two commands matter: `make run` and `make test`. `make help` lists the rest.

VENV := .venv
PY := $(VENV)/bin/python
# The first Python that the locks are for; PYTHON=/path/to/python chooses another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && { echo $$p; break; }; done)
CODE := komand sessions_app agents_app tools_app audit_app
CHECKED := $(CODE) tests benchmarks manage.py setup.py
# Workers of tests: many tests wait more than they compute. Whole installations and browsers are processes of their own.
JOBS ?= 3
WHOLE_JOBS ?= 3
# A part, such as 2/12, of the crash points and of the tests that PostgreSQL repeats after SQLite. Of the attacks on an
# agent with full autonomy any part but 1/1 takes a third.
SLICE ?= 1/1
# Only files whose hashes are in the lock, and no source package, which would run code of its author to build itself.
# `make install WHEELS=` builds from (locked) source on a platform for which some package has no wheel.
WHEELS ?= --only-binary :all:
LOCKED := -m pip --disable-pip-version-check install --no-compile --require-hashes $(WHEELS)
# Prints one line about a part of the installation, with its seconds; and all its output if it fails.
PART = @$(or $(PYTHON),$(PY)) -m komand.supervisor.install_part
TOOLS := $(VENV)-tools
FOREIGN := $(VENV)-foreign
# Faults whose tests have limits of seconds run one by one; all others wait most of their time, and run in pairs.
TIMED := test_live_faults or test_tool_children or test_trees or test_random or test_upgrade or test_web_restarts
# The tests that `make faults` leaves out, by their names: sqlite, postgres, "sqlite or test_upgrade".
WITHOUT ?=
# Whose advisories `make audit` compares with: pypi or osv.
ADVISORIES ?= pypi
COMPILE = $(TOOLS)/bin/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --only-binary :all: \
	--no-header --no-annotate

# Keep compiled code: otherwise each process compiles all of it again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install run test test-all lint format bench chaos crash-points faults real-model real-mail foreign conformance fuzz properties lock sbom audit clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## create the virtualenv and install the runtime packages

run: install ## start everything; Ctrl-C stops it
	@exec $(PY) manage.py up

test: $(VENV)/.installed-dev ## the tests for every change, on SQLite and on PostgreSQL (KOMAND_TEST_DATABASE_URL, or a temporary server)
	$(PY) -m pytest -n $(JOBS) --ignore=tests/architecture
	$(PY) -m tests.on_postgres -n $(JOBS) -m "not one_database and not whole" -k "not test_crash_points"

test-all: test ## also whole installations, a browser, crash points, and all tests on PostgreSQL
	KOMAND_CUT_SLICE=$(SLICE) $(PY) -m pytest -n $(WHOLE_JOBS) -m "whole and not chaos and not npm and not real_model and not real_mail"
	KOMAND_TEST_SLICE=$(SLICE) $(PY) -m tests.on_postgres -n $(WHOLE_JOBS) -m "one_database or whole"

lint: $(VENV)/.installed-dev ## all static checks, those of the code's own rules among them
	$(VENV)/bin/ruff check $(CHECKED)
	$(VENV)/bin/ruff format --check $(CHECKED)
	$(VENV)/bin/mypy $(CHECKED)
	$(VENV)/bin/lint-imports
	$(VENV)/bin/djlint --quiet --lint templates
	KOMAND_DATA_DIR=$(VENV)/lint $(PY) manage.py makemigrations --check --dry-run
	$(PY) -m pytest -q -n 2 tests/architecture

format: $(VENV)/.installed-dev ## format the code and apply automatic fixes
	@# Format first: the check refuses lines that it wraps. And last: a fix may leave code that it lays out otherwise.
	$(VENV)/bin/ruff format -q $(CHECKED)
	$(VENV)/bin/ruff check --fix $(CHECKED)
	$(VENV)/bin/ruff format $(CHECKED)

bench: $(VENV)/.installed-dev ## benchmarks: first token, runs per second, streams, viewers, growth, memory
	$(PY) -m benchmarks

chaos: crash-points faults ## all crash points, then ten minutes (KOMAND_CHAOS_SECONDS) of random faults

crash-points: $(VENV)/.installed-dev ## a crash at each point of each scenario, on both databases (SLICE=2/12: at a twelfth of them)
	KOMAND_CUT_SLICE=$(SLICE) $(PY) -m pytest -n $(WHOLE_JOBS) tests/chaos/test_crash_points.py
	KOMAND_CUT_SLICE=$(SLICE) $(PY) -m tests.on_postgres -n $(WHOLE_JOBS) -k test_crash_points

faults: $(VENV)/.installed-dev ## faults of whole installations: random ones for ten minutes (KOMAND_CHAOS_SECONDS), and an upgrade
	$(PY) -m pytest tests/chaos -m chaos -k "($(TIMED))$(if $(WITHOUT), and not ($(WITHOUT)))" -s
	$(PY) -m pytest tests/chaos -m chaos -k "not ($(TIMED))$(if $(WITHOUT), and not ($(WITHOUT)))" -rP -n 2

real-model: $(VENV)/.installed-dev ## tests with a model server of this machine: KOMAND_TEST_MODEL_URL=http://127.0.0.1:8080/v1
	$(PY) -m pytest tests/surfaces/test_real_model.py -m real_model

real-mail: $(VENV)/.installed-dev ## tests with an IMAP server of this machine: KOMAND_TEST_IMAP=imap://user:password@127.0.0.1:143
	$(PY) -m pytest tests/surfaces/test_real_mail.py -m real_mail

foreign: $(VENV)/.installed-dev $(FOREIGN)/.installed ## tests with clients and agent frameworks of npm (needs node and npm) and PyPI
	$(PY) -m pytest tests/surfaces -m npm

conformance: $(VENV)/.installed-dev ## official conformance suites of protocols, pinned; writes docs/conformance.md (needs npm)
	$(PY) -m tests.conformance

fuzz: $(VENV)/.installed-dev ## fuzz test of the HTTP API by its OpenAPI document (SEED=…)
	$(PY) -m tests.fuzz $(SEED)

properties: $(VENV)/.installed-dev ## property tests with more examples than `make test`
	$(PY) -m pytest tests/unit -m hypothesis --hypothesis-profile=long --timeout=600 -n $(WHOLE_JOBS)

lock: $(TOOLS)/.installed ## pin the newest versions that pyproject.toml allows, with the hashes of their files
	(head -1 requirements.lock; $(COMPILE) pyproject.toml) > $(TOOLS)/runtime
	(head -1 requirements-dev.lock; $(COMPILE) --extra dev --constraint $(TOOLS)/runtime pyproject.toml) > $(TOOLS)/dev
	(head -1 requirements-tools.lock; $(COMPILE) --group tools) > $(TOOLS)/tools
	(head -1 requirements-foreign.lock; $(COMPILE) --group foreign) > $(TOOLS)/foreign
	mv $(TOOLS)/runtime requirements.lock
	mv $(TOOLS)/dev requirements-dev.lock
	mv $(TOOLS)/tools requirements-tools.lock
	mv $(TOOLS)/foreign requirements-foreign.lock

sbom: $(TOOLS)/.installed ## list the runtime packages as CycloneDX JSON in build/sbom.cdx.json
	mkdir -p build
	$(TOOLS)/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application --output-reproducible \
		--output-format JSON --output-file build/sbom.cdx.json requirements.lock
	@! grep -n "$(CURDIR)" build/sbom.cdx.json || { echo "komand: the SBOM names this folder"; exit 1; }

audit: $(TOOLS)/.installed ## compare the runtime packages with published advisories; needs the internet (ADVISORIES=pypi or osv)
	@mkdir -p build && rm -f build/audit.txt
	@$(TOOLS)/bin/pip-audit --vulnerability-service $(ADVISORIES) --requirement requirements.lock --disable-pip --require-hashes \
		--strict --progress-spinner off --output build/audit.txt || { cat build/audit.txt 2>/dev/null || \
		echo "komand: not audited: the advisory service ($(ADVISORIES)) did not answer for every package; see above"; exit 1; }

clean: ## remove the virtualenv and the caches, never the data
	rm -rf $(VENV) $(TOOLS) $(FOREIGN) build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(PY):
	@test -n "$(PYTHON)" || { echo "komand: Python 3.11 to 3.14 is needed and was not found"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "komand: this Python cannot make virtualenvs; install its venv package (Debian: apt-get install python3-venv)"; exit 1; }
	$(PART) virtualenv $(PYTHON) -m venv $(VENV)

# Some packages ship templates that are not Python yet, which is no failure.
COMPILED = $(PART) bytecode sh -c '$(PY) -m compileall -q -j 0 $(VENV)/lib $(CODE) || true'

$(VENV)/.installed: requirements.lock | $(PY)
	$(PART) packages $(PY) $(LOCKED) -r requirements.lock
	$(COMPILED)
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock | $(PY)
	$(PART) packages $(PY) $(LOCKED) -r requirements-dev.lock
	$(COMPILED)
	@touch $@ $(VENV)/.installed

$(TOOLS)/.installed: requirements-tools.lock | $(PY)
	$(PY) -m venv --clear $(TOOLS)
	$(TOOLS)/bin/python $(LOCKED) -r requirements-tools.lock
	@touch $@

# Frameworks need other versions of some packages than Komand. uv installs these hundreds of MB in a tenth of the time of pip.
$(FOREIGN)/.installed: requirements-foreign.lock $(TOOLS)/.installed | $(PY)
	$(PY) -m venv --clear $(FOREIGN)
	$(TOOLS)/bin/uv pip install -q --python $(FOREIGN)/bin/python --require-hashes --no-deps $(WHEELS) -r requirements-foreign.lock
	@touch $@
