# Each target sets up what it needs, can be run first, twice, and after the others, and echoes the plain commands.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test test-long test-dist lint dist site graphs pictures clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	@mkdir -p build
	@echo
	@echo "== 1. Plan AlexNet for 16 GPUs: which slicing for which layer, and what it is worth"
	$(BIN)/slicewise plan alexnet --cluster p100-4x4 --batch 512 -o build/alexnet-16gpu.json --figure build/alexnet-16gpu.svg
	@echo
	@echo "== 2. Why: what matters most, against data parallelism and the next best, and when it would flip"
	$(BIN)/slicewise explain build/alexnet-16gpu.json
	@echo
	@echo "== 3. Measure this machine, so that it can be predicted"
	$(BIN)/slicewise calibrate --quick
	@echo
	@echo "== 4. Plan AlexNet for this machine: 2 ranks, one core each"
	$(BIN)/slicewise plan alexnet --cluster local --devices 2 --batch 16 -o build/alexnet-local.json
	@echo
	@echo "== 5. Run that plan: equal to one device? as fast as predicted? faster than DDP?"
	$(BIN)/slicewise run build/alexnet-local.json --nproc-per-node 2 --check --compare ddp --iterations 6
	@echo
	@echo "== 6. Ask the oracle: ResNet-50 on up to 1,024 GPUs, which strategy and why"
	$(BIN)/slicewise oracle resnet50 --cluster abci-v100 --devices 16,128,1024 --batch-per-device 32 --dataset imagenet --best

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks examples scripts
	$(BIN)/ruff format --check src tests benchmarks examples scripts
	$(BIN)/lint-imports
	$(BIN)/mypy --num-workers 2

# What measures time has the machine to itself. A file's tests stay together: they share processes, plans and captures.
# Hundreds of processes start: bytecode is kept whatever the environment says.
TIMED := tests/distributed/test_diagnose.py
BY_FILE := -n 2 --dist loadfile --no-loadscope-reorder
test test-long: export PYTHONDONTWRITEBYTECODE :=
test: lint
	$(BIN)/python -m pytest --durations=10 $(TIMED)
	$(BIN)/python -m pytest --durations=10 $(BY_FILE) --ignore $(TIMED)

# Networks whose ranks are not there (a fake process group) need no processes to share.
FAKED := tests/distributed/test_whole_zoo.py tests/distributed/test_fake_gpu.py
LONGER := --timeout 1800 --durations=10
test-long: export SLICEWISE_TESTS := long
test-long: lint
	$(BIN)/python -m pytest $(LONGER) $(TIMED)
	$(BIN)/python -m pytest $(LONGER) $(BY_FILE) tests/distributed --ignore $(TIMED) $(FAKED:%=--ignore %)
	$(BIN)/python -m pytest $(LONGER) -n 2 --dist worksteal $(FAKED)
	$(BIN)/python -m pytest $(LONGER) -n 2 --dist worksteal --ignore tests/distributed

# What is uploaded: the wheel is built from the sdist.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --outdir dist

# What would be uploaded, installed where the repository is not: a few minutes, and nothing but the package registries.
test-dist: export SLICEWISE_TESTS := long
test-dist: dist
	$(BIN)/python -m pytest $(LONGER) tests/validation/test_release.py

# The documentation as pages, into build/site; `mkdocs serve` shows it while you write.
site: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The captured graphs that ship with the package, made anew from the zoo.
graphs: $(READY)
	for model in $$($(BIN)/python -c 'from slicewise.graph.zoo import ZOO; print(*ZOO)'); do \
	    $(BIN)/slicewise capture $$model -o src/slicewise/graph/captured/$$model.json || exit 1; \
	done

# The README's pictures, the first by the demo's first command, and those of docs/concepts.md; the studio's need Chromium.
pictures: $(READY)
	$(BIN)/slicewise plan alexnet --cluster p100-4x4 --batch 512 --figure docs/images/alexnet-16gpu.svg
	$(BIN)/python scripts/pictures.py
	$(BIN)/python scripts/screens.py

clean:
	rm -rf $(VENV) build dist
