# Needs Python 3.11 or later, a Java 17 or later runtime, and make. `make` lists the targets.
NEWEST_FIRST := python3.14 python3.13 python3.12 python3.11
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3 $(NEWEST_FIRST) python; do \
	"$$name" -c '$(NEW_ENOUGH)' 2>/dev/null && echo "$$name" && break; done)
BIN := .venv/bin
STAMP := .venv/.installed
KEEP ?=
ARGS ?=
SEEDS ?= 200

.PHONY: help install demo drill drill-same-offsets fire test test-versions slow simulate again check bench bench-report screenshots wheel docs lock clean
.DEFAULT_GOAL := help

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | \
		while read -r name text; do printf '  make %-18s %s\n' "$$name" "$$text"; done

install: $(STAMP) ## Create .venv with the pinned packages and the causeway command

$(STAMP): requirements.lock requirements-build.lock requirements-kerberos.lock pyproject.toml producer/pyproject.toml tools/install.py
	@python="$(PYTHON)"; if [ -n "$$python" ]; then "$$python" tools/install.py; \
		else echo "causeway: Python 3.11 or later is missing: install it" >&2; exit 1; fi
	@touch $@

demo: $(STAMP) ## Mirror 336,776 flights between two local clusters (KEEP=1 leaves it running)
	@$(BIN)/python -m examples.demo $(if $(KEEP),--keep) $(ARGS)

drill: $(STAMP) ## Lose a cluster under load, fail over and back; prints the RPO and RTO
	@$(BIN)/python -m pytest tests/integration/test_drill.py -k translate -q -s $(ARGS)

drill-same-offsets: $(STAMP) ## The same drill with preserved offsets
	@$(BIN)/python -m pytest tests/integration/test_drill.py -k preserve -q -s $(ARGS)

fire: $(STAMP) ## Break everything at random for an hour, then count (ARGS="--minutes 10 --seed 7")
	@$(BIN)/python -m tests.fire $(ARGS)

# Compiled tests are kept: without them, each worker spends seconds to compile all tests again.
export PYTHONDONTWRITEBYTECODE :=

PYTEST := $(BIN)/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder -rs

test: $(STAMP) ## Run the tests that take seconds (ARGS="-k name" selects some)
	@$(PYTEST) -m "not slow and not versions" $(ARGS)

test-versions: $(STAMP) ## Mirror between the newest Kafka and each older release; fill offsets on each
	@$(BIN)/python -m pytest tests/integration/test_versions.py tests/integration/test_offset_filling_versions.py -v -rs $(ARGS)

slow: $(STAMP) ## Run the tests that take longer (hours in total), and all examples of property-based tests
	@CAUSEWAY_EXAMPLES=1 $(PYTEST) -m "slow or hypothesis" $(ARGS)

simulate: $(STAMP) ## Run the whole mirror in simulated time (SEEDS=500, SEEDS=40-60; ARGS="--seed 7 --trace")
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(ARGS)

again: $(STAMP) ## Run the tests that failed last again, one at a time
	@$(BIN)/python -m pytest --last-failed --last-failed-no-failures none -rs $(ARGS)

check: $(STAMP) ## Lint, format, types, import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@cd producer && ../$(BIN)/lint-imports

bench: $(STAMP) ## Measure Causeway and MirrorMaker 2 (ARGS="--quick", ARGS="--only json")
	@$(BIN)/python -m bench $(ARGS)

bench-report: $(STAMP) ## Write bench/RESULTS.md and the chart again from bench/results.json
	@$(BIN)/python -m bench.report
	@$(BIN)/python -m bench.chart

screenshots: $(STAMP) ## Take the screenshots of README.md in Chromium, while a mirror works
	@$(BIN)/python -m tools.screenshots

wheel: $(STAMP) ## Build dist/causeway-….whl, for pipx or uv tool, and causeway_producer-….whl
	@$(BIN)/python -m tools.man > tools/causeway.1
	@$(BIN)/python -m hatchling build -t wheel
	@cd producer && ../$(BIN)/python -m hatchling build -t wheel -d ../dist

docs: $(STAMP) ## Build the documentation site into build/site, and check its links
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/docs
	@$(BIN)/uv pip install --quiet --python build/docs/bin/python --require-hashes -r requirements-docs.lock
	@NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --quiet --strict

LOCKING := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

# The extras in the image: those that a file can need.
OF_RUNS := --extra avro --extra aws --extra gcp --extra jks --extra protobuf --extra tokenise

lock: $(STAMP) ## Pin the newest versions that pyproject.toml allows
	@$(LOCKING) --upgrade pyproject.toml producer/pyproject.toml --group dev --output-file requirements.lock
	@$(LOCKING) --constraint requirements.lock $(OF_RUNS) pyproject.toml --output-file requirements-run.lock
	@$(LOCKING) --upgrade --group kerberos --output-file requirements-kerberos.lock
	@$(LOCKING) --upgrade --group build --output-file requirements-build.lock
	@$(LOCKING) --upgrade --group docs --output-file requirements-docs.lock

clean: ## Remove .venv and the files that tools create
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist spark-warehouse artifacts
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
