# Every target works on a machine that has only Python (>= 3.10) and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test lint clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: $(READY)
	$(BIN)/sfumato demo

# One process per core, one thread in each. Neighbours run in the same process, since they share what is costly to make;
# who is done takes over half of what another has left, so that none works alone on a slow file at the end.
# At most four: each loads torch for itself, and a container may show more cores than it may use.
# Bytecode is kept, also where the environment says otherwise: every process would compile all tests anew.
test: $(READY)
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses logical --maxprocesses 4 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) demo runs .pytest_cache .mypy_cache .ruff_cache
