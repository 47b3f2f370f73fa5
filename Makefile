# `make demo` and `make test` install everything they need on an empty machine.
# The virtual environment is .venv in the source tree; a sourced ROS is not visible in it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := env -u PYTHONPATH -u AMENT_PREFIX_PATH $(BIN)/python
# The tests of a file share expensive fixtures, so they run in one worker.
PYTEST := $(RUN) -m pytest --dist loadfile --no-loadscope-reorder
# An environment is complete if its stamp contains the checksum of the locked versions.
stamp   = $(VENV)/$(1)-$(firstword $(shell cksum < $(1)))
RUNTIME := $(call stamp,requirements.txt)
DEV     := $(call stamp,requirements-dev.txt)
LOCK    := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
           --custom-compile-command 'make lock' $(UPGRADE)

.PHONY: demo identify-demo quick test campaign papers mutants benchmark docs lock clean

demo: $(RUNTIME)
	$(RUN) -m robot_dynamics_ros demo $(if $(VIEW),--view)

identify-demo: $(RUNTIME)
	$(RUN) -m robot_dynamics_ros identify_demo

# Quick check of a change: the fast tests that start no node, and style.
quick: $(DEV)
	$(PYTEST) --numprocesses logical --maxprocesses 8 -m 'not slow' --ignore=test/ros

# One worker more than processors: two on two processors waited for nodes a quarter of the time.
test: $(DEV)
	$(PYTEST) --numprocesses $$(($$(nproc) < 8 ? $$(nproc) + 1 : 8))

# How many small faults the tests find: make mutants ROOM='control model' MUTANTS=24 SEED=3
# TESTS=test/control JOBS=2; all of these are optional.
mutants: $(DEV)
	$(RUN) test/mutants/judge.py $(ROOM) $(if $(MUTANTS),--mutants $(MUTANTS)) \
	    $(if $(SEED),--seed $(SEED)) $(if $(TESTS),--tests $(TESTS)) $(if $(JOBS),--jobs $(JOBS))

# Search for faults at random, by seed: make campaign CAMPAIGN=fuzz N=1000 SEED=3
campaign: $(DEV)
	$(RUN) test/campaigns $(or $(CAMPAIGN),faults) $(if $(N),-n $(N)) $(if $(SEED),--seed $(SEED))

# Prove the errata of the papers, see docs/errata.md.
papers: $(DEV)
	$(RUN) -m pytest -v test/papers/*.py

benchmark: $(DEV)
	$(RUN) -m benchmark $(NAME)

docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

# Lock the versions of setup.py's dependencies; `make lock UPGRADE=--upgrade` updates them.
lock: $(DEV)
	$(LOCK) setup.py --extra kernels --extra pinocchio --extra ros --extra sim \
	    --extra recordings --extra view --output-file requirements.txt
	$(LOCK) setup.py --all-extras --constraint requirements.txt --output-file requirements-dev.txt
	echo uv | $(LOCK) - --output-file requirements-uv.txt

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 is needed")'
	$(PYTHON) -m venv $(VENV)

# uv takes a fifth of pip's time; if it is not available, pip installs the same files.
PIP     := $(BIN)/python -m pip install --disable-pip-version-check
install = $(PIP) --quiet -r requirements-uv.txt \
	    && $(BIN)/uv pip install --python $(BIN)/python --compile-bytecode -r $(1) \
	    || $(PIP) -r $(1)

# Scripts in any folder import the package of this clone.
LINK := $(BIN)/python -c 'import pathlib as p, sysconfig as s; \
          p.Path(s.get_path("purelib"), "robot_dynamics_ros.pth").write_text(f"{p.Path.cwd()}\n")'

$(RUNTIME): | $(BIN)/python
	$(call install,requirements.txt)
	$(LINK)
	touch $@

# Contains all runtime dependencies, in the same versions.
$(DEV): | $(BIN)/python
	$(call install,requirements-dev.txt)
	$(LINK)
	touch $(RUNTIME) $@

clean:
	rm -rf $(VENV) .cache out build install log
