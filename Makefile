# What people type. Every target prints what it does; `make` alone lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION  ?= $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
PUBLISHED := registry.roadstead.dev
REGISTRY ?= $(PUBLISHED)
IMG         ?= $(REGISTRY)/roadstead-operator:v$(VERSION)
# olm, or olm-v1, whose bundle and catalog have names of their own
INSTALLER   ?= olm
OF_INSTALLER := $(addprefix -,$(filter-out olm,$(INSTALLER)))
BUNDLE_IMG  ?= $(REGISTRY)/roadstead-bundle$(OF_INSTALLER):v$(VERSION)
CATALOG_IMG ?= $(REGISTRY)/roadstead-catalog$(OF_INSTALLER):latest
# bundle/ and catalog/ are checked in with the published images, for OLM; those of another registry come to lie in dist/olm, and those for OLM v1 in
# dist/olm-v1
OLM_DIR     ?= $(if $(filter-out olm,$(INSTALLER))$(filter-out $(PUBLISHED)/%,$(IMG) $(BUNDLE_IMG)),dist/$(INSTALLER),.)
LAYOUTS     := $(if $(filter .,$(OLM_DIR)),dist,$(OLM_DIR))
# What the catalog's image holds: static programs, one for each platform, with commas between
CATALOG_BINARY ?= dist/roadstead
# The sample operator has a version of its own
GREETER_VERSION    ?= $(shell sed -n 's/^  version: //p' examples/greeter/manifests/base.yaml)
GREETER_IMG        ?= $(REGISTRY)/roadstead-greeter:v$(GREETER_VERSION)
GREETER_BUNDLE_IMG ?= $(REGISTRY)/roadstead-greeter-bundle:v$(GREETER_VERSION)

# docker, podman or buildah, whichever works first; docker's client is of no use without its daemon
CONTAINER_TOOL ?= $(shell if docker info >/dev/null 2>&1; then echo docker; else for tool in podman buildah; do command -v $$tool >/dev/null 2>&1 && echo $$tool && break; done; fi)
KUBECTL        ?= kubectl
# `local` is the cluster of hack/cluster; `existing` is whatever KUBECONFIG leads to
CLUSTER        ?= local

# Programs, images and compiled crates outlive the checkout, so that a fresh clone is quick on a warm machine. Two checkouts never share
# compiled crates: cargo goes by the age of files, and would take what it built of one for what the other holds.
export ROADSTEAD_CACHE  ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/roadstead
export CARGO_TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(ROADSTEAD_CACHE)/target/$(notdir $(CURDIR))-$(firstword $(shell printf %s '$(CURDIR)' | cksum)))
export CLUSTER REGISTRY CONTAINER_TOOL
# What serves the next build takes 9 GB, and there is none
ifdef CI
export CARGO_INCREMENTAL := 0
endif

ROADSTEAD := cargo run --quiet --
# Which tests need what: Kubernetes' own controllers besides an API server, an API server (or nginx, PostgreSQL or Redis), the upstream tools, the local cluster (e2e), or nothing
KCM_FILES   := tests/people_apiserver.rs tests/database_volumes_apiserver.rs
INSTANCE_FILES := $(wildcard tests/instance_*_apiserver.rs)
API_FILES   := $(filter-out $(KCM_FILES) $(INSTANCE_FILES),$(wildcard tests/*_apiserver.rs tests/runtime_*.rs)) tests/nginx_agent.rs tests/ledger.rs $(wildcard tests/postgres_*.rs)
# A Redis Cluster of several processes under load, which asks how long it serves nobody
REDIS_FILES := $(wildcard tests/redis_*.rs)
JUDGE_FILES := $(wildcard tests/*_judge.rs) tests/bundle_images.rs tests/catalog_images.rs
PURE_FILES  := $(filter-out $(KCM_FILES) $(INSTANCE_FILES) $(API_FILES) $(JUDGE_FILES) $(REDIS_FILES) tests/e2e.rs,$(wildcard tests/*.rs))
comma       := ,
flags        = $(patsubst tests/%.rs,--test %,$(1))

# $(call require,PROGRAM,REMEDY): a missing program is named in one line
require = @command -v $(firstword $(1) container-tool) >/dev/null 2>&1 || { echo "make: $(or $(1),a container tool) is missing: $(2)" >&2; exit 1; }

##@ See it
.PHONY: demo down help
demo: ## Install from a catalog, run a proxy, be upgraded under load, lose a primary. CLUSTER=existing REGISTRY=... uses your own cluster
	@hack/demo
down: ## Stop the local cluster; what was built stays in the cache
	@hack/cluster/cluster down
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z][a-z -]*:.*## / {sub(/:.*/, "", $$1); printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Develop
.PHONY: check test test-api soak bench-catalog bench-redis mutants deny fmt manifests generate build build-static run tidy
check: ## Format, clippy, pure tests (at most 3 minutes; always before a commit)
	$(call require,cargo,install Rust 1.95 or newer)
	$(call require,cc,apt-get install gcc)
	@hack/stage "format"       cargo fmt --all --check
	@hack/stage "clippy"       cargo clippy --quiet --workspace --all-targets -- -D warnings
	@hack/stage "pure tests"   cargo test --quiet --no-fail-fast --workspace --lib --bins $(call flags,$(filter-out $(WITHOUT),$(PURE_FILES)))
# The program that end to end puts into images is one crate on one core for most of its time. All simulations take in the few of `make check`. The local cluster's own tests run before end to end, never beside it: two busy clusters would slow each other down
test: ## Every promise once: pure, on a real API server, end to end on the local cluster
	@hack/stage "cluster programs" hack/cluster/cluster programs
	@hack/beside "static program" hack/build-static -- $(MAKE) --no-print-directory check WITHOUT=tests/simulation.rs
	@hack/stage "simulations, all of them" env SIMULATION=full cargo test --quiet --test simulation
	@hack/stage "dependencies"   hack/deny
	@hack/stage "upstream tools as judge" cargo test --quiet $(call flags,$(JUDGE_FILES))
	@$(MAKE) --no-print-directory test-api
	@hack/stage "real controllers" cargo test --quiet $(call flags,$(KCM_FILES))
	@hack/stage "the local cluster itself" hack/cluster/test/run
	@hack/stage "end to end"   hack/e2e
# They wait most of their time, so more of them run at once than there are cores; but not those of a database's instances, each with up to three
# PostgreSQLs and writers, which ask that pauses are short
test-api: ## Only the tests that need an API server: KUBEBUILDER_ASSETS=folder, or the local cluster's programs
	@hack/stage "API server tests" cargo test --quiet $(call flags,$(API_FILES)) -- --test-threads 4
	@hack/stage "a database's instances" cargo test --quiet $(call flags,$(INSTANCE_FILES)) -- --test-threads 2
	$(call require,redis-server,hack/cluster/cluster programs)
	@hack/stage "clusters of Redis" cargo test --quiet $(call flags,$(REDIS_FILES)) -- --test-threads 2
soak: ## Figures and long random runs, to docs/figures/: PART=all|lease|proxy|many|random|olm|catalog|database RUNS=5 SECONDS=600 ROUNDS=20 FAULTS=100 BACKGROUND=true
	@PART="$(PART)" RUNS="$(RUNS)" SOAK_SECONDS="$(SECONDS)" ROUNDS="$(ROUNDS)" FAULTS="$(FAULTS)" BACKGROUND="$(BACKGROUND)" hack/soak
bench-catalog: build-static ## Judge and serve a large catalog, beside opm in one run; prints the table
	@hack/cluster/cluster programs
	cargo bench --quiet --bench catalog
bench-redis: ## Bring slots to another shard of a real Redis Cluster, beside redis-cli in one run
	$(call require,redis-server,hack/cluster/cluster programs)
	$(call require,redis-cli,hack/cluster/cluster programs)
	cargo bench --quiet --bench redis_reshard
mutants: ## Seed known bugs one by one and see which the tests catch: NAMES=...
	@hack/mutants $(NAMES)
deny: ## Judge the dependencies: licences, sources, banned crates
	@hack/deny
fmt: ## Format the code
	cargo fmt --all
manifests generate: ## Write crds/ and config/ from the types
	$(ROADSTEAD) generate
build: ## Build the binary for this machine, and print where it is
	@cargo build
	@echo $(CARGO_TARGET_DIR)/debug/roadstead
build-static: ## Build the static binary that the image holds, as dist/roadstead
	@hack/build-static
tidy: ## Remove what was compiled of this project, up to 25 GB over time; its dependencies stay
	cargo clean --quiet --package roadstead --package roadstead-greeter
run: install ## Run the operator here, against the current kubeconfig's cluster; proxies take their agent from IMG=...
	OPERATOR_IMAGE=$(IMG) $(ROADSTEAD) run --log-format=text --ask-pods=false $(ARGS)

##@ Images
.PHONY: docker-build docker-push bundle bundle-build bundle-push catalog-build catalog-push
docker-build: build-static ## Build the operator's image: IMG=...
	$(call require,$(CONTAINER_TOOL),install docker or podman or buildah and name it with CONTAINER_TOOL=)
	$(CONTAINER_TOOL) build -f Dockerfile --build-arg VERSION=$(VERSION) -t $(IMG) .
docker-push: ## Push it: IMG=...
	$(call require,$(CONTAINER_TOOL),install docker or podman or buildah and name it with CONTAINER_TOOL=)
	$(CONTAINER_TOOL) push $(IMG)
bundle: manifests ## Write bundle/ for VERSION; with another REGISTRY dist/olm/bundle, with INSTALLER=olm-v1 dist/olm-v1/bundle
	$(ROADSTEAD) bundle generate --for $(INSTALLER) --version $(VERSION) --image $(IMG) --output $(OLM_DIR)/bundle
bundle-build: ## Build the bundle's image, as a layout in dist/: BUNDLE_IMG=... Needs no container tool, as the three below
	$(ROADSTEAD) bundle build $(OLM_DIR)/bundle --tag $(BUNDLE_IMG) --output $(LAYOUTS)/bundle.tar --force
bundle-push: ## Push it: BUNDLE_IMG=...
	$(ROADSTEAD) bundle push $(LAYOUTS)/bundle.tar $(BUNDLE_IMG)
catalog-build: $(if $(filter dist/roadstead,$(CATALOG_BINARY)),build-static) ## Build the image of catalog/, which serves itself: CATALOG_IMG=... With another REGISTRY or INSTALLER, the bundle in dist/ is added to a copy of it first
ifneq ($(filter-out .,$(OLM_DIR)),)
	rm -rf $(OLM_DIR)/catalog
	cp -R catalog $(OLM_DIR)/catalog
	$(ROADSTEAD) catalog generate --bundle $(OLM_DIR)/bundle --bundle-image $(BUNDLE_IMG) --output $(OLM_DIR)/catalog $(if $(findstring -,$(VERSION)),--channels candidate$(comma)stable)
# every version, so that going back finds its images too
	sed -i 's|$(PUBLISHED)/|$(REGISTRY)/|g' $(OLM_DIR)/catalog/*/catalog.yaml
endif
	$(ROADSTEAD) catalog build $(OLM_DIR)/catalog --binary $(CATALOG_BINARY) --tag $(CATALOG_IMG) --output $(LAYOUTS)/catalog.tar --force
catalog-push: ## Push it: CATALOG_IMG=...
	$(ROADSTEAD) catalog push $(LAYOUTS)/catalog.tar $(CATALOG_IMG)

##@ The sample operator, examples/greeter
.PHONY: greeter greeter-build greeter-push
greeter: ## Write its crds/, its bundle/ and its package in catalog/
	cargo run --quiet --package roadstead-greeter -- generate
	$(ROADSTEAD) bundle generate --input examples/greeter/crds --input examples/greeter/manifests --output examples/greeter/bundle --image $(GREETER_IMG)
	$(ROADSTEAD) catalog generate --bundle examples/greeter/bundle --bundle-image $(GREETER_BUNDLE_IMG)
greeter-build: ## Build its two images: GREETER_IMG=... GREETER_BUNDLE_IMG=...
	$(call require,$(CONTAINER_TOOL),install docker or podman or buildah and name it with CONTAINER_TOOL=)
	@hack/build-static greeter
	$(CONTAINER_TOOL) build -f examples/greeter/Dockerfile -t $(GREETER_IMG) .
	$(CONTAINER_TOOL) build -f examples/greeter/bundle.Dockerfile -t $(GREETER_BUNDLE_IMG) examples/greeter
greeter-push: ## Push them
	$(call require,$(CONTAINER_TOOL),install docker or podman or buildah and name it with CONTAINER_TOOL=)
	$(CONTAINER_TOOL) push $(GREETER_IMG)
	$(CONTAINER_TOOL) push $(GREETER_BUNDLE_IMG)

##@ Deploy without OLM
PLURALS := myproxies databases
# Closes the version at $$at, which nobody converts any more. As in README.md, "Uninstall"
CLOSE := [{"op":"test","path":"/spec/versions/'$$at'/storage","value":false},{"op":"replace","path":"/spec/versions/'$$at'/served","value":false},{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}]
.PHONY: install uninstall deploy undeploy
install: ## Install the CRDs into the current cluster
	$(call require,$(KUBECTL),install kubectl)
	$(KUBECTL) apply --server-side --force-conflicts -f crds/
uninstall: ## Delete the CRDs; refused while objects of theirs are there
	$(call require,$(KUBECTL),install kubectl)
	@for kind in $(PLURALS); do \
	  stored=$$($(KUBECTL) --request-timeout=10s get crd $$kind.roadstead.dev --ignore-not-found -o jsonpath='{.spec.versions[?(@.storage==true)].name}'); \
	  if [ -z "$$stored" ]; then continue; fi; \
	  objects=$$($(KUBECTL) --request-timeout=10s get $$kind.$$stored.roadstead.dev --all-namespaces -o name) || { echo "make: cannot tell whether $$kind are there, so the CRDs stay" >&2; exit 1; }; \
	  [ -z "$$objects" ] || { echo "make: $$(wc -l <<<"$$objects") $$kind are there: delete them first, while the operator can clean up after them" >&2; exit 1; }; \
	done
	$(KUBECTL) delete --ignore-not-found -f crds/
deploy: ## Install the CRDs and the operator: IMG=... NGINX_IMAGE=...
	@hack/deploy $(IMG)
undeploy: ## Remove the operator; CRDs, objects, what they run and the volumes of databases stay
	$(call require,$(KUBECTL),install kubectl)
	@for kind in $(PLURALS); do \
	  stored=$$($(KUBECTL) get crd $$kind.roadstead.dev --ignore-not-found -o jsonpath='{.status.storedVersions[*]}'); \
	  case "$$stored" in *\ *) echo "make: $$kind are stored in $$stored, and without the operator nobody converts: wait until it has moved them, about 10 s after its start" >&2; exit 1 ;; esac; \
	done
	$(KUBECTL) delete --ignore-not-found -k config/webhook
# In the foreground: as long as a pod of it runs, what is closed next would be opened again
	$(KUBECTL) -n roadstead-system delete --ignore-not-found --cascade=foreground --wait deployment/roadstead-operator
	@for kind in $(PLURALS); do \
	  versions=$$($(KUBECTL) get crd $$kind.roadstead.dev --ignore-not-found -o jsonpath='{.spec.versions[*].storage}'); at=0; \
	  for stored in $$versions; do \
	    [ "$$stored" = true ] || $(KUBECTL) patch crd $$kind.roadstead.dev --type=json -p '$(CLOSE)'; at=$$((at + 1)); \
	  done; \
	done
	$(KUBECTL) delete --ignore-not-found -k config/certificates
	$(KUBECTL) delete --ignore-not-found -k config/rbac
	$(KUBECTL) delete --ignore-not-found -k config/manager

##@ Release
.PHONY: release
release: ## Make VERSION the next release: version, bundle/, catalog/, config/. CHANNELS=candidate,... where the defaults do not fit
	$(ROADSTEAD) release $(VERSION) $(if $(CHANNELS),--channels $(CHANNELS))
