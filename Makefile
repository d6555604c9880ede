# Each target sets up .venv by itself; a contributor needs Python 3.11, make and pip.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-gpu lint format

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: .venv/.installed
	$(BIN)/orat demo

lint: .venv/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Without a GPU, if the machine has one: runs are equal to the bit on a CPU alone.
test: lint
	CUDA_VISIBLE_DEVICES= $(BIN)/pytest -n 2

test-gpu: .venv/.installed
	$(BIN)/pytest -o addopts="" -k gpu

format: .venv/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
