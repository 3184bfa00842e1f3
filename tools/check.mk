# The parts of `make check`. None needs another, so that `make -j3 check` installs tools while it compiles.
.PHONY: fmt clippy doc style leases timeline template translate translated ask-aws asked asl types cdk terraform deny

fmt:
	cargo fmt --all --check
	cargo fmt --all --check --manifest-path proof/comparison/Cargo.toml

# Others build the library with any features, so it is checked with all of them, which the workspace enables, and with none; so
# are the functions, of which one has the dependencies of all.
clippy:
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy -p leasehold -p leasehold-lambda -p acquire --locked --no-default-features -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# The rules of proof/tests/repository on which no promise rests.
style: ## wording of the documents, and which module may import which
	cargo test --quiet --workspace --locked --test repository -- --ignored style

# Checks the shipped machines through the template, which says what their functions are.
leases: ## check the state machines for leases that can expire, leak or be used after their end
	cargo run --quiet --locked --bin leasehold -- check template.yaml templates/samples.yaml

# Of one run, so it changes only when somebody wants a new one.
timeline: demo ## run the demo, and put its picture into README
	cp target/demo/timeline.svg docs/pictures/timeline.svg

# The stack's own template, the smallest stack, and the two nested templates of the first.
TEMPLATES := template.yaml templates/minimal.yaml templates/monitoring.yaml templates/samples.yaml
TRANSLATE = mkdir -p target/templates && $(SAM_ENV)/bin/python tools/translate.py target/templates $(TEMPLATES)

# Lints the templates as written, with `sam validate --lint`, and as translated with the state machines included, with cfn-lint.
# The same for the templates of a release.
template: $(SAM_ENV)/complete
	$(TRANSLATE)
	for name in $(notdir $(TEMPLATES:.yaml=.json)); do diff local/$$name target/templates/$$name || { echo "local/$$name is outdated: make translate"; exit 1; }; done
	$(SAM_ENV)/bin/python tools/release/templates.py target/templates/release
	ln -sfn $(CURDIR)/templates/statemachines target/templates/release/templates/statemachines
	$(SAM_ENV)/bin/python tools/lint.py . target/templates/release

# The local stack reads the translation, so that starting it does not need SAM. The Terraform module's outputs are the template's.
translate: $(SAM_ENV)/complete ## translate the templates to local/*.json and Terraform's outputs, after every change
	$(TRANSLATE)
	cp target/templates/*.json local/
	$(SAM_ENV)/bin/python tools/test_terraform.py --write

translated:
	@for path in $(TEMPLATES); do grep -q "$$(sha256sum < $$path | cut -c1-64)" local/$$(basename $$path .yaml).json || { echo "$$path has changed: make translate"; exit 1; }; done

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

# Quickly, and offline except for the npm packages: compiles the construct, and checks the types of its tests and of the app of
# examples/. tools/packages/test_cdk.py does the rest, with the packages. Here only the plain templates of a release are linted too.
cdk: $(CDK_ROOT)/complete ## compile the CDK construct of clients/, and check the types of its app in examples/
	$(SAM_ENV)/bin/python tools/packages/cdk.py --types
	$(SAM_ENV)/bin/python tools/release/templates.py target/packages/release
	$(SAM_ENV)/bin/cfn-lint --regions us-east-1 -- target/packages/release/*.json

# Terraform is in no package registry, so its files are only parsed and compared with the template.
terraform: $(SAM_ENV)/complete ## compare the Terraform module of examples/ with the template
	$(SAM_ENV)/bin/python tools/test_terraform.py

# The advisories are a git repository. If it cannot be reached, the check says so, also in its last line. With
# ADVISORIES=required, as on GitHub, the check then fails.
UNCHECKED := target/unchecked
WORKSPACES := . proof/comparison
# A check of cargo-deny in each workspace.
denied = $(foreach workspace,$(WORKSPACES),(cd $(workspace) && $(CURDIR)/$(DENY) --locked --log-level error --config $(CURDIR)/tools/deny.toml check $(1)) &&) true
deny: $(DENY)
	$(call denied,bans licenses sources)
	@rm -f $(UNCHECKED)
	@if timeout 120 $(DENY) --locked fetch db > target/deny-fetch.log 2>&1; then \
	  $(call denied,--disable-fetch advisories); \
	else \
	  echo "advisories, whose database cannot be reached (target/deny-fetch.log)" > $(UNCHECKED); \
	  echo "NOT CHECKED: $$(cat $(UNCHECKED))"; [ "$(ADVISORIES)" != required ]; \
	fi
