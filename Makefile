# Everything runs from this tree, uninstalled, with an environment that is cached outside of it.
.DEFAULT_GOAL := help
.PHONY: help demo check test test-lts soak soak-sample bench docs venv format clean-cache
SHELL := /bin/sh

# Recipes begin with it: prepares the environment (only once) and puts its python in $$py.
START = py=$$(sh scripts/bootstrap.sh) && export PYTHONPATH="$(CURDIR)/src"
FAST = not broker and not crash and not soak and not slow and not connect
# Two workers, a file at a time, the longest first (tests/durations.py): each has a Spark session and a broker of its own.
TWO = -n 2 --dist loadfile --no-loadscope-reorder
SOURCES = src tests scripts $(wildcard bench docs)
TYPED = $(filter-out tests docs,$(SOURCES))
# `make test` runs it next to the Connect tests, which leave a core idle.
LINT = "$$py" -m ruff check $(SOURCES) && "$$py" -m ruff format --check $(SOURCES) && "$$py" -m mypy $(TYPED)

help:  ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo:  ## the whole story on this machine: a real broker, real Spark, joins, proofs
	@$(START) && exec "$$py" -m lakestreams demo

check:  ## the fast lane, under 3 minutes: lint, types, and the tests that need no broker
	@$(START) && $(LINT) \
	&& LAKESTREAMS_TEST_MODE=fast "$$py" -m pytest -q -m "$(FAST)" $(TWO)

test:  ## all that must hold for a change: lint, types, every test but the long ones
	@$(START) && "$$py" -m lakestreams.local.cds && { { $(LINT); } & } && lint=$$! \
	&& LAKESTREAMS_TEST_MODE=connect "$$py" -m pytest -q -m "connect and not soak and not slow" \
	&& wait "$$lint" && "$$py" -m pytest -m "not soak" $(TWO)

test-lts:  ## scenario 1, restarts, quarantine, the joins' cases and the wheel on the Spark of the long-term runtime
	@export LAKESTREAMS_SPARK=lts && $(START) && "$$py" -m lakestreams.local.cds && exec "$$py" -m pytest -m "(connect and not soak) or lts" $(TWO)

soak:  ## the long tests; seeds are printed; then every other test on the Spark of the long-term runtime
	@$(START) && "$$py" -m lakestreams.local.cds \
	&& LAKESTREAMS_TEST_MODE=connect "$$py" -m pytest -q -m "connect and slow" && "$$py" -m pytest -m soak -s \
	&& export LAKESTREAMS_SPARK=lts && $(START) && "$$py" -m lakestreams.local.cds && exec "$$py" -m pytest -m "not soak" $(TWO)

SEED ?= $(shell date -u +%G-W%V)
soak-sample:  ## some of the long tests, one case of each; SEED, which is this week unless given, says which; SAMPLE=20 how many
	@$(START) && "$$py" -m lakestreams.local.cds && echo "SEED=$(SEED)" \
	&& exec "$$py" -m pytest --soak-sample $(or $(SAMPLE),20) --soak-seed "$(SEED)" $(TWO)

bench:  ## beside Kafka Streams, Flink SQL and Spark's own operators, then by size; BENCH="--scale 0.1" GROWTH="--sizes 100000" and more
	@$(START) && "$$py" -m lakestreams.local.cds && "$$py" -m bench.versus $(BENCH) && exec "$$py" -m bench.growth $(GROWTH)

docs:  ## the documentation site in build/site; needs no Java, and fails at any warning
	@cache="$${LAKESTREAMS_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/lakestreams}"; \
	for python in "$${PYTHON:-python3.13}" python3.12 python3.11 python3; do \
		"$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && break; done; \
	venv=$$("$$python" scripts/make_venv.py "$$cache" requirements/docs.txt) && exec "$$venv/bin/python" scripts/docs_site.py

venv:  ## .venv for development: pinned packages and this package, editable
	@$(START) && base=$$("$$py" -c 'import sys; print(sys._base_executable)') && "$$base" -m venv .venv \
	&& .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/local.txt -r requirements/dev.txt \
	&& .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . \
	&& echo "ready: . .venv/bin/activate"

format:  ## formats the sources and mends what ruff can mend
	@$(START) && "$$py" -m ruff format $(SOURCES) && "$$py" -m ruff check --fix $(SOURCES)

clean-cache:  ## removes the cached environment, jars and logs (they come back when needed)
	@cache="$${LAKESTREAMS_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/lakestreams}"; \
	rm -rf "$$cache"/venv-* "$$cache"/jars-* "$$cache"/registry-jars-* "$$cache"/.registry-jars-* "$$cache"/.jars-* "$$cache"/kraft-* "$$cache"/spark-*.jsa "$$cache"/bootstrap-* "$$cache"/program-* "$$cache"/.program-* "$$cache"/logs; \
	echo "removed what was in $$cache"
