# Two commands do all the set-up on an empty machine: `make demo` and `make test`.
# The virtual environment lives in the tree (.venv) and is never mixed into a sourced ROS.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := env -u PYTHONPATH -u AMENT_PREFIX_PATH $(BIN)/python

.PHONY: demo identify-demo test benchmark docs clean

demo: $(VENV)/runtime
	$(RUN) -m robot_dynamics_ros demo

identify-demo: $(VENV)/runtime
	$(RUN) -m robot_dynamics_ros identify_demo

test: $(VENV)/dev
	$(RUN) -m pytest

benchmark: $(VENV)/dev
	$(RUN) -m benchmark

docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/runtime: requirements.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/dev: requirements-dev.txt $(VENV)/runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@

$(VENV)/docs: requirements-docs.txt $(VENV)/runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	touch $@

clean:
	rm -rf $(VENV) out build install log
