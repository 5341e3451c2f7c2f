# Arco's development tasks. `make` without a target lists them.
#
# Every target sets up what it needs, once: a stamp file inside an environment marks it as complete, and
# is older than the requirements when they have changed.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Where it is set, each of hundreds of processes would compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

SEEDS ?= 1000
REQUESTS ?= 20000
KILLS ?= 200
SPARK ?= 300
JOBS ?= 4
FORMAT ?= iceberg

BIN := .venv/bin
READY := .venv/.ready
DOCS_READY := .venv-docs/.ready
INTEROP_READY := .venv-interop/.ready
PEERS_READY := .venv-peers/.ready
AZURITE_READY := tests/azurite/node_modules/.ready

.PHONY: help setup azurite jars java run demo test pytest quick check sim differential fuzz bench interop docs lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) azurite jars ## Create .venv with locked versions; Azurite and Iceberg's jar for the tests; idempotent
	@echo "Ready: .venv/bin/arco"

# Checked first: without Java nothing runs on Spark, and the rest takes minutes to install.
java:
	@tools/find_java >/dev/null

run: java $(READY) ## Start Arco on ./.arco, run the shop of examples/shop on Spark, keep serving; FORMAT=parquet
	@$(BIN)/python tools/run_shop.py --format $(FORMAT)

demo: java $(READY) ## The same on a temporary directory; print the results, and stop
	@$(BIN)/python tools/run_shop.py --demo --format $(FORMAT)

# What waits, for the network or for other processes, runs beside what computes.
test: java ## Run setup and check, and all tests except sim and interop on JOBS=4 processes
	@$(MAKE) --no-print-directory -j 4 check pytest

pytest: setup ## Run the tests of make test, without make check; JOBS=4
	$(BIN)/pytest -n $(JOBS) --dist loadgroup

quick: check ## Run check, then the tests that start no process, no Spark and no server: under two minutes
	$(BIN)/pytest -n 2 -m 'not process and not interop and not sim' --no-processes

check: $(READY) ## Formatter, linter, types, imports between packages, names, and use of clocks, randomness and threads
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_seams.py
	$(BIN)/python tools/check_names.py

sim: $(READY) ## Run SEEDS=1000 simulations, then explore models, crash points and mutants; SEED=n replays one
	$(BIN)/python -m tests.sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))
	$(if $(SEED),,$(BIN)/python -m tests.sim --seeds 20 --twice)
	$(if $(SEED),,$(BIN)/pytest -m sim -n 2 tests)
	$(if $(SEED),,$(BIN)/pytest -m 'not process and not interop and not sim' -n 2 --hypothesis-profile thorough)

differential: SEEDS = 10000
differential: $(READY) ## Fold random events in different ways and compare the rows; SEEDS=10000, of these SPARK=300 on Spark too
	$(BIN)/python -m tests.differential $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --spark $(SPARK))

fuzz: setup ## Send REQUESTS=20000 generated requests to the API (schemathesis); fails on any 5xx
	$(BIN)/python -m tests.api.fuzz --requests $(REQUESTS)

bench: $(READY) ## Print the speed table, each line beside a baseline of the same run, write docs/performance.md; ONLY="name ..."
	@$(MAKE) --no-print-directory $(PEERS_READY) || echo "Dagster and Prefect could not be installed: the table is printed without them."
	$(BIN)/python -m bench $(ONLY)

interop: setup $(INTEROP_READY) ## Spark, PyIceberg, DuckDB, RCK; tests that need building or much time; KILLS=200
	@tools/build_minio
	@$(BIN)/python tools/fetch_jars.py --interop
	KILLS=$(KILLS) .venv-interop/bin/pytest -m interop tests

docs: $(DOCS_READY) ## Build the documentation into site/
	.venv-docs/bin/mkdocs build --strict

lock: ## Update the locked dependencies, with hashes (needs uv)
	@tools/lock

clean: ## Remove environments, caches and built files; never data (./.arco stays)
	rm -rf .venv .venv-docs .venv-interop .venv-peers site build dist tests/azurite/node_modules
	rm -rf .cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .pytest_cache
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} +

azurite: $(AZURITE_READY)

# Without it set-up fails, so that no test on Spark is skipped.
jars: $(READY)
	@$(BIN)/python tools/fetch_jars.py

$(READY): requirements/dev.txt requirements/runtime.txt pyproject.toml tools/make_venv
	@tools/make_venv .venv requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src/arco  # as pip does with packages that are not editable
	@touch $@

$(DOCS_READY): requirements/docs.txt tools/make_venv
	@tools/make_venv .venv-docs requirements/docs.txt
	@touch $@

# Other engines, in a separate environment: all of `.venv`, and much more.
$(INTEROP_READY): requirements/interop.txt pyproject.toml tools/make_venv
	@tools/make_venv .venv-interop requirements/interop.txt
	@.venv-interop/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# Other orchestrators, in a separate environment: their dependencies conflict with Arco's.
$(PEERS_READY): requirements/peers.txt tools/make_venv
	@tools/make_venv .venv-peers requirements/peers.txt
	@touch $@

# Without Node.js the tests that need Azurite are skipped, with a message.
$(AZURITE_READY): tests/azurite/package-lock.json tools/install_azurite
	@tools/install_azurite tests/azurite
