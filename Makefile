# What a person uses, and CI in the same way. tools/check.mk has the parts of `make check`, tools/tools.mk the tools and how they
# are installed, proof/Makefile the proofs that take longer than `make test`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help quick demo local local-stack local-programs pytest-example browser book test check package semver build invoke one-function built-size sizes dist command-line local-wheel dist-test deploy clean

include tools/tools.mk tools/check.mk

# Instruction set of the functions: arm64 or x86_64.
ARCH ?= arm64
OTHER_ARCH := $(filter-out $(HOST_ARCH),arm64 x86_64)
TRIPLE := $(if $(filter x86_64,$(ARCH)),x86_64,aarch64)-unknown-linux-gnu

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile tools/*.mk
	@echo 'make -C proof help   the proofs that take longer'

# The loop of who changes the rules. It compiles nothing that `make test` does not.
quick: ## after a change in lib or lambda, in seconds: the unit tests of all crates, and the cases of the library
	cargo test --workspace --locked --lib --test cases

demo: ## show leases in use on this machine, from start to end
	@$(MAKE) --no-print-directory -j2 local-stack
	$(LEAN)/leasehold-local demo

local: ## start the whole stack on this machine and leave it running (LOCAL=--container-address: also for containers)
	@$(MAKE) --no-print-directory -j2 local-stack CONSOLE=leasehold-cli
	$(LEAN)/leasehold-local up $(LOCAL)

# Only what a local stack needs: its programs and, built at the same time, the Python environment of its engine.
# leasehold-local makes that environment in the same way if it is missing.
ASL_ENV := target/asl-venv
local-stack: translated local-programs $(ASL_ENV)/leasehold-requirements

# The functions' own code, without what serves nothing on this machine: TLS, and Lambda's client, which only durable functions
# need. Nothing else is built this way, so the profile has a directory of its own.
LEAN := target/lean
local-programs:
	cargo build --locked --profile lean --no-default-features -p leasehold-local-program -p step $(addprefix -p ,$(FUNCTIONS) $(CONSOLE)) $(if $(findstring --durable-runner,$(LOCAL)),-p leasehold-lambda --features leasehold-lambda/durable-functions)

$(ASL_ENV)/leasehold-requirements: local/asl/requirements.txt
	rm -rf $(ASL_ENV)
	python3 -m venv $(ASL_ENV)
	$(ASL_ENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	cp $< $@

# The packages are those of this clone, as they are. What is compiled for `make demo` or `make local` is not compiled again.
PYTEST_ENV := target/pytest-venv
PYTEST_LOCK := tools/packages/requirements-pytest.txt
pytest-example: local-stack $(PYTEST_ENV)/leasehold-requirements ## run examples/python-pytest with the fixture of this clone, without make dist
	cd examples/python-pytest && PYTHONPATH=$(CURDIR)/local/python:$(CURDIR)/clients/python PYTHONDONTWRITEBYTECODE=1 \
	  $(CURDIR)/$(PYTEST_ENV)/bin/python -m pytest -p leasehold_local.pytest_plugin -p no:cacheprovider

$(PYTEST_ENV)/leasehold-requirements: $(PYTEST_LOCK)
	rm -rf $(PYTEST_ENV)
	python3 -m venv $(PYTEST_ENV)
	$(PYTEST_ENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	cp $< $@

# The system's, for the tests of the console. Where it is not to be had by that name, the tests leave their program out, aloud.
browser: ## install Chromium and its driver by apt-get, if they are missing
	@command -v chromedriver > /dev/null || { $(AS_ROOT) apt-get update -qq && $(AS_ROOT) apt-get install -y -qq chromium chromium-driver > /dev/null; } \
	  || echo "NO BROWSER: the tests of the console will not run; install Chromium or Chrome, and put its chromedriver on the PATH" >&2
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)

# Its tools take minutes to build, once. That each page is in the contents and each link leads somewhere, tests show in any case.
book: $(BOOK_ROOT)/bin/mdbook $(MERMAID_ROOT)/bin/mdbook-mermaid ## build the documents as a book, with search, and follow its links (target/book)
	python3 tools/book.py $^

# The tests start the functions' binaries, hence the build before them, and run the TypeScript client with the tools' Node.
test: translated browser $(SAM_ENV)/complete ## build everything, run every test in two lanes, list the slowest ten, and count
	cargo build --workspace --locked --bins --examples
	cargo test --workspace --locked --lib --bins --tests --no-run --message-format=json-render-diagnostics > target/tests.json
	python3 tools/tests.py "cargo test --workspace --locked --doc" < target/tests.json

# CI leaves these two out of a push, because it lints what `make test` builds while it is built: .ci/run says how.
LINTS ?= clippy doc
check: fmt $(LINTS) style template asked asl types leases cdk terraform deny ## format, lints, documentation, licences, template and state machines
	@if [ -s $(UNCHECKED) ]; then echo "check: NOT CHECKED: $$(cat $(UNCHECKED)); all else holds"; else echo "check: all of it holds"; fi

# Built from the contents of the package, with the default features. Cargo unpacks the library for the other crates below its
# own directory, by version and not by contents: what an earlier state of this version left there would be built.
package: ## pack the crates as they are published, build them from the packages, and use the first in an empty project
	rm -rf "$${CARGO_HOME:-$$HOME/.cargo}"/registry/src/-*/leasehold-[0-9]*
	cargo package --package leasehold --package leasehold-conformance --package leasehold-lambda --locked
	python3 tools/packages/test_crates.py

# The newest published version of the crate; empty, because nothing is published yet.
PUBLISHED :=
# BASELINE="--baseline-rev REVISION" compares with an earlier state of the repository instead.
semver: ## compare the crate's public API with the published version (PUBLISHED in the Makefile)
	@if [ -z "$(PUBLISHED)$(BASELINE)" ]; then echo "semver: NOT COMPARED: no version of the crate is published yet"; \
	else $(MAKE) $(SEMVER) && $(SEMVER) semver-checks --package leasehold --all-features $(or $(BASELINE),--baseline-version $(PUBLISHED)); fi

# SAM builds one function after the other, and links each with full optimisation on one core. So all are built beforehand, in
# parallel, and SAM finds them built. Only these packages, so that features of others are not enabled.
CONFIG ?= default
define lambda-build
	rustup target list --installed | grep -x $(TRIPLE) || rustup target add $(TRIPLE)
	$(LAMBDA) build --release --locked $(if $(filter x86_64,$(ARCH)),--x86-64,--arm64) $(addprefix -p ,$(FUNCTIONS))
endef

build: $(SAM_ENV)/complete ## build every function for Lambda (ARCH=arm64 or x86_64)
	$(lambda-build)
	$(SAM) build --config-env $(CONFIG) --parameter-overrides Architecture=$(ARCH)

# Does all that `sam local invoke` needs. Built quickly, not as shipped; `make local` has to run meanwhile.
EVENT ?= acquire
LOGICAL_ID := $(shell verb=$(firstword $(subst -, ,$(EVENT))); echo $${verb^}Function)
invoke: $(SAM_ENV)/complete ## send one of events/ to its function in Lambda's container, against `make local` (EVENT=acquire)
	$(QUICKLY) $(MAKE) one-function ARCH=$(HOST_ARCH) FUNCTIONS=$(firstword $(subst -, ,$(EVENT)))
	$(QUICKLY) $(SAM) build $(LOGICAL_ID) --parameter-overrides Architecture=$(HOST_ARCH)
	. target/local/env.sh && $(SAM) local invoke $(LOGICAL_ID) --parameter-overrides Architecture=$(HOST_ARCH) -n target/local/env.json -e events/$(EVENT).json $(SAM_INVOKE)

one-function: $(SAM_ENV)/complete
	$(lambda-build)

# The result of the last `make build`, for one instruction set.
built-size: $(SAM_ENV)/complete
	rm -rf target/sizes/$(ARCH) && mkdir -p target/sizes && cp -r target/lambda target/sizes/$(ARCH)
	$(SAM_ENV)/bin/python tools/sizes.py target/sizes/$(ARCH)

# cargo-lambda puts both builds into one place, so each is copied before the other.
sizes: ## build every function as shipped, for both instruction sets, and list its size (3.2 MB zipped at most)
	rm -rf target/sizes && mkdir -p target/sizes
	for arch in arm64 x86_64; do rm -rf target/lambda; $(MAKE) one-function ARCH=$$arch; cp -r target/lambda target/sizes/$$arch; done
	$(SAM_ENV)/bin/python tools/sizes.py target/sizes/arm64 target/sizes/x86_64

# The files that install Leasehold without Rust. DIST_ARCHS lists the instruction sets; this machine's has to be one of them.
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
DIST := dist/leasehold-$(VERSION)
DIST_ARCHS ?= arm64 x86_64
dist: translated $(SAM_ENV)/complete ## write dist/leasehold-<version>: zips, templates, command line, checksums (DIST_ARCHS="arm64 x86_64")
	rm -rf $(DIST) && mkdir -p $(DIST)
	for arch in $(DIST_ARCHS); do \
	  rm -rf target/lambda; $(MAKE) one-function command-line ARCH=$$arch; $(SAM_ENV)/bin/python tools/release/build.py pack $(DIST) $$arch; \
	  $(MAKE) local-wheel ARCH=$$arch; done
	$(SAM_ENV)/bin/python tools/release/build.py finish $(DIST)

# Statically linked with musl, by the C compiler that cargo-lambda brings, so that it runs on any Linux.
MUSL = $(TRIPLE:gnu=musl)
command-line: $(SAM_ENV)/complete
	rustup target list --installed | grep -x $(MUSL) || rustup target add $(MUSL)
	$(LAMBDA) build --release --locked --target $(MUSL) -p leasehold-cli

# The package leasehold-local for one instruction set, from the functions that were just built. Its own programs are static. With
# LOCAL_PROGRAMS=target/debug nothing is built, and the package is for machines like this one.
LOCAL_PROGRAMS :=
CPU = $(firstword $(subst -, ,$(TRIPLE)))
local-wheel: $(SAM_ENV)/complete
	$(if $(LOCAL_PROGRAMS),,$(LAMBDA) build --release --locked --target $(MUSL) -p leasehold-local-program -p step)
	$(SAM_ENV)/bin/python tools/packages/local.py $(or $(LOCAL_PROGRAMS),target/lambda) $(CPU) $(DIST)/packages

# Each package is installed in an empty directory, and used there: on the local stack, or on an emulator of CloudFormation.
dist-test: $(SAM_ENV)/complete ## install every package of dist/ in an empty directory, and use it there; run the command line
	$(SAM_ENV)/bin/python tools/release/test.py $(DIST)
	$(MAKE) --no-print-directory -j3 -O $(addprefix dist-test-,local clients cdk)

dist-test-%:
	LEASEHOLD=$(abspath $(DIST))/bin/leasehold-linux-$(HOST_ARCH) $(SAM_ENV)/bin/python tools/packages/test_$*.py $(DIST)/packages

# An environment of samconfig.toml: default, staging, prod, or minimal for the smallest stack; in the Region of AWS_REGION, if that is set.
deploy: build ## build, show the change set, and deploy it after a yes (CONFIG=staging PARAMETERS="ClockMarginMs=5000 …")
	$(SAM) deploy --config-env $(CONFIG) $(if $(AWS_REGION),--region $(AWS_REGION)) --parameter-overrides Architecture=$(ARCH) $(PARAMETERS)

clean: ## remove everything built; keep the tools
	rm -rf .aws-sam
	if [ -d target ]; then find target -mindepth 1 -maxdepth 1 ! -name tools -exec rm -rf {} +; fi
