# Quicksilver. `make help` lists the targets; everything else is in Cargo.

# Build jobs: one per core, but no more than memory carries (a linker takes about 1.5 GB).
CORES := $(shell nproc 2>/dev/null || echo 2)
MEMORY_JOBS := $(shell awk '/MemAvailable/ { jobs = int($$2 / 1500000); print jobs < 1 ? 1 : jobs }' /proc/meminfo 2>/dev/null || echo 2)
CARGO_BUILD_JOBS ?= $(shell if [ $(CORES) -lt $(MEMORY_JOBS) ]; then echo $(CORES); else echo $(MEMORY_JOBS); fi)
export CARGO_BUILD_JOBS

# Where rustup and most distributions put what is called below, also in a bare CI shell.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

CARGO ?= cargo
# --locked: what is tested is what Cargo.lock says.
LOCKED := --locked
# Seconds that `make fuzz` gives each target.
FUZZ_SECONDS ?= 60
# Changed packets of `make soak-security`.
SOAK_PACKETS ?= 10000000
# Runs of `make soak`.
SOAK_SEEDS ?= 100000
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
PYTHON_ENVIRONMENT := $(abspath $(TARGET_DIR))/python
export QSM_PYTHON := $(PYTHON_ENVIRONMENT)/bin/python

.PHONY: help deps alerts-check demo-deps demo book publish-check manifests-check package package-deps package-check test format lint unit unit-build unit-first unit-second unit-third unit-fourth unit-beside gate-beside doc gate gate-update fuzz soak soak-security digests growth acceptance large plan-check copies pauses paths flow soak-flow sites bench bench-deps bench-quick figures figures-bindings figures-runtime figures-stalls figures-page figures-groupcast figures-relay groupcast-capi capi python java replay dash-check otlp figures-host protection order joins
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Programs that the demonstration calls, those that the tests call besides, and the packages they come in.
DEMO_PROGRAMS := curl:curl ip:iproute2 nft:nftables ethtool:ethtool
TEST_PROGRAMS := valgrind:valgrind tshark:tshark javac:default-jdk-headless
# Java's tests run in JUnit's console; QSM_JUNIT names one that is elsewhere.
QSM_JUNIT ?= /usr/share/java/junit-platform-console-standalone.jar
export QSM_JUNIT
CHROMIUM := chromium:chromium

# Checks for Rust, and installs what is missing of $(1), pairs of a program and its package.
define need
	@command -v $(CARGO) >/dev/null || { \
	  echo "cargo is missing: install Rust 1.88 or newer, see https://rustup.rs" >&2; exit 1; }
	@command -v cc >/dev/null || { \
	  echo "a C linker (cc) is missing: install gcc or clang" >&2; exit 1; }
	@packages=""; \
	for pair in $(1); do \
	  command -v "$${pair%%:*}" >/dev/null || packages="$$packages $${pair##*:}"; \
	done; \
	if [ -z "$$packages" ]; then exit 0; fi; \
	if [ "$$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "missing:$$packages. Install with your package manager, as root, for example:" >&2; \
	  echo "  apt-get install$$packages" >&2; exit 1; \
	fi; \
	echo "installing$$packages"; \
	apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$packages
endef

deps: $(PYTHON_ENVIRONMENT)/bin/pytest $(QSM_JUNIT) ## check for Rust, install what the tests call
	$(call need,$(DEMO_PROGRAMS) $(TEST_PROGRAMS))

$(QSM_JUNIT):
	$(call need,$(QSM_JUNIT):junit5)

# Python's tests run in an environment of their own.
$(PYTHON_ENVIRONMENT)/bin/pytest:
	$(call need,python3:python3-venv)
	@mkdir -p $(TARGET_DIR)
	@python3 -m venv $(PYTHON_ENVIRONMENT) || { \
	  apt-get install -y -qq --no-install-recommends python3-venv && python3 -m venv $(PYTHON_ENVIRONMENT); }
	@$(PYTHON_ENVIRONMENT)/bin/pip install -q --disable-pip-version-check pytest numpy

demo-deps:
	$(call need,$(DEMO_PROGRAMS))

demo: demo-deps ## build the program and run its demonstration
	$(CARGO) build $(LOCKED) --release -p qsm-cli
	$(TARGET_DIR)/release/qsm demo

test: deps format lint unit-build ## format, lints, all tests, documentation, the gate: what must pass
	$(call run_parts,6,unit-first unit-second unit-third unit-fourth unit-beside gate-beside)
	@echo
	@$(TELL_SKIPPED)
	@echo "make test: everything passed (format, lints, tests, documentation, instruction counts)"

format: ## is the code formatted?
	$(CARGO) fmt --all --check

lint: ## clippy, warnings denied
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- -D warnings

# Tests that could not run add a line to it. With QSM_REQUIRE_LAB=1 those that need root fail instead.
export QSM_SKIPPED := $(abspath $(TARGET_DIR))/skipped.txt
TELL_SKIPPED := if [ -s $(QSM_SKIPPED) ]; then sort -u $(QSM_SKIPPED); \
  echo "make test: $$(sort -u $(QSM_SKIPPED) | wc -l) skipped, as the lines above say; as root more can run"; fi

# Runs $(2), targets, $(1) at a time.
define run_parts
	@echo "running $(1) parts side by side, which takes some minutes; each is shown when it is over"
	@$(MAKE) --no-print-directory --jobs $(1) --output-sync=target $(2)
endef

unit: unit-build ## all tests of the workspace, the decoders' fuzz smoke among them
	$(call run_parts,4,unit-first unit-second unit-third unit-fourth)
	$(CARGO) test $(LOCKED) --workspace --doc
	@$(TELL_SKIPPED)

unit-build:
	@mkdir -p $(TARGET_DIR) && rm -f $(QSM_SKIPPED)
	$(CARGO) test $(LOCKED) --workspace --no-run

# Most tests of processes wait most of the time; the parts take about as long.
unit-first:
	$(CARGO) test $(LOCKED) --workspace --no-fail-fast --test '[a-d]*'

unit-second:
	$(CARGO) test $(LOCKED) --workspace --no-fail-fast --test '[e-m]*'

unit-third:
	$(CARGO) test $(LOCKED) --workspace --no-fail-fast --test '[n-r]*'

unit-fourth:
	$(CARGO) test $(LOCKED) --workspace --no-fail-fast --lib --bins --test '[s-z]*'

# Both compile while the parts wait, and give way to them.
unit-beside:
	nice -n 19 $(CARGO) test $(LOCKED) --workspace --doc
	nice -n 19 env $(DOC)

gate-beside:
	nice -n 19 env $(GATE)

DOC := RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(LOCKED) --workspace --no-deps

doc: ## documentation, warnings denied
	$(DOC)

# The same instructions on every machine: no processor but the architecture's plainest, and whole crates.
GATE := RUSTFLAGS="-C target-cpu=generic" CARGO_INCREMENTAL=0 $(CARGO) bench $(LOCKED) -p qsm-proto --bench instructions

gate: deps ## instructions per message of the hot paths, compared with the baseline: one minute
	$(GATE)

gate-update: deps ## write the present instruction counts as the baseline
	$(GATE) -- --update

fuzz: ## the decoders and a node under libFuzzer, FUZZ_SECONDS (60) each; needs cargo-fuzz and nightly
	@$(CARGO) fuzz --version >/dev/null 2>&1 || { \
	  echo "cargo-fuzz is missing: cargo install cargo-fuzz" >&2; \
	  echo "(a bounded run without it is part of make test)" >&2; exit 1; }
	@$(CARGO) +nightly --version >/dev/null 2>&1 || { \
	  echo "the nightly toolchain is missing: rustup toolchain install nightly" >&2; exit 1; }
	@set -e; for target in $(FUZZ_TARGETS); do \
	  echo "fuzzing $$target for $(FUZZ_SECONDS) s"; \
	  $(CARGO) +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -len_control=10; \
	done

soak: ## SOAK_SEEDS (100000) drawn runs with all faults, and the digests of debug and release
	$(CARGO) build $(LOCKED) --release -p qsm-cli
	$(TARGET_DIR)/release/qsm sim swarm --seeds $(SOAK_SEEDS) --all-faults --save $(TARGET_DIR)/soak
	@$(MAKE) --no-print-directory digests

soak-security: ## SOAK_PACKETS (10000000) changed packets of recorded runs at a protected node: none may be opened; a minute or two
	SOAK_PACKETS=$(SOAK_PACKETS) $(CARGO) test $(LOCKED) --release -p qsm --test soak -- --ignored --nocapture

digests: ## the same seeds give the same digests in debug and release, twice
	$(CARGO) build $(LOCKED) -p qsm-cli
	$(CARGO) build $(LOCKED) --release -p qsm-cli
	@debug=$$($(TARGET_DIR)/debug/qsm sim swarm --seeds 100 --twice --keep-going --shrink-runs 0 --json | grep -o '"digest":"[0-9a-f]*"'); \
	release=$$($(TARGET_DIR)/release/qsm sim swarm --seeds 100 --twice --keep-going --shrink-runs 0 --json | grep -o '"digest":"[0-9a-f]*"'); \
	echo "debug $$debug, release $$release"; test -n "$$debug" && test "$$debug" = "$$release"

growth: ## what a larger region costs, up to 10,000 nodes: three minutes
	$(CARGO) test $(LOCKED) --release -p qsm-sim --test growth -- --ignored --nocapture

acceptance: ## acceptance of recovery and flow where it takes long: regions of 100 to 1,000, paths and senders; minutes
	$(CARGO) test $(LOCKED) --release -p qsm-sim --test rates --test repairs --test parity -- --ignored --nocapture

plan-check: ## the planner at full size, judged by time, memory and quality: half a minute, 1 GB
	$(CARGO) build $(LOCKED) --release -p qsm-cli
	$(TARGET_DIR)/release/qsm plan --layout planted:10000,100000,extras=5 --check
	$(TARGET_DIR)/release/qsm plan --layout planted:10000,100000,extras=5 --no-residue --check
	$(TARGET_DIR)/release/qsm plan --layout singles:10000,100000 --check

large: ## 10,000 nodes and 100,000 groups, 100 and 1,000 at each node: minutes, and 10 GB
	$(CARGO) build $(LOCKED) --release -p qsm-cli
	$(TARGET_DIR)/release/qsm sim run scenarios/large/ten-thousand-nodes.txt
	$(TARGET_DIR)/release/qsm sim run scenarios/large/thousand-groups-a-node.txt

# What is found or told apart by multicast alone, services and strangers at an address, and its end.
BY_MULTICAST := the_membership_service_may_change_its_address a_second_service each_half_has_a_service_of_its_own \
  otherwise_a_stranger_is_heard multicast_stops_reaching

copies: deps ## the tests with real processes where no multicast passes, all by unicast; as root, some minutes
	QSM_REQUIRE_LAB=1 QSM_NO_MULTICAST=1 $(CARGO) test $(LOCKED) -p qsm-system -- $(BY_MULTICAST:%=--skip %)

otlp: ## metrics sent to a collector: lints and tests of the feature, which is off by default
	$(CARGO) clippy $(LOCKED) -p qsm-exporter -p qsm-cli --features qsm-exporter/otlp,qsm-cli/otlp --all-targets -- -D warnings
	$(CARGO) test $(LOCKED) -p qsm-exporter --features otlp
	$(CARGO) test $(LOCKED) -p qsm-cli --features otlp --test stats collector

replay: ## a minute of nodes that lose 5 % of what they receive, replayed to the same deliveries byte for byte
	$(CARGO) test $(LOCKED) -p qsm --test record -- --ignored

pauses: deps ## the cost of pauses and cut-offs to the others and to the victim, judged, at 2,000 messages/s and at 100 MB/s, and on each transport; as root, over an hour on a quiet machine
	$(CARGO) build $(LOCKED) --release -p qsm-system
	@failed=0; \
	$(TARGET_DIR)/release/pauses || failed=1; \
	$(TARGET_DIR)/release/pauses --bytes 8000 --rate 12500 || failed=1; \
	$(TARGET_DIR)/release/pauses --transport ipv6,no-multicast,ssm,two-networks,cores,engine \
	  --roles receiver,leader,sender,service --seconds 1,5 || failed=1; \
	$(TARGET_DIR)/release/pauses --faults firewall,mute,deaf,all-deaf,rival,address,damage --seconds 6 || failed=1; \
	$(CARGO) test $(LOCKED) -p qsm-system --test heavy_loss --test slowness --test reach --test transports \
	  -- --ignored --nocapture || failed=1; \
	exit $$failed

# E.g. FLOW="--trials paces --paces slowest", FLOW="--json".
FLOW ?=
# Length of the overload of `make soak-flow`, seconds.
FLOW_SECONDS ?= 600

flow: deps ## receivers that cannot follow and senders with too much to send, between hosts, judged; as root, six minutes on a quiet machine
	$(CARGO) build $(LOCKED) --release -p qsm-system
	$(TARGET_DIR)/release/flow $(FLOW)

soak-flow: deps ## ten minutes of overload at twice the capacity (FLOW_SECONDS), judged; as root
	$(CARGO) build $(LOCKED) --release -p qsm-system
	$(TARGET_DIR)/release/flow --trials overload --seconds $(FLOW_SECONDS)

# Parts of `make sites`, e.g. SITES=a,d; all, if none is named. Runs of each case.
SITES ?=
SITES_RUNS ?= 3
FIGURES_SITES := docs/figures-sites

# NATS' server for part f, as a Go module.
NATS_SERVER := github.com/nats-io/nats-server/v2@v2.15.2
SITES_NATS := $(abspath $(TARGET_DIR))/go/nats-server

$(SITES_NATS):
	@command -v go >/dev/null || { echo "go is missing: it builds NATS for part f, see https://go.dev/dl" >&2; exit 1; }
	GOBIN=$(dir $@) go install $(NATS_SERVER)

# A relay of Media over QUIC for the same.
SITES_MOQ := $(abspath $(TARGET_DIR))/moq
SITES_BESIDE := $(SITES_NATS) $(SITES_MOQ)/version

$(SITES_MOQ)/version: bench/peers/moq/build.sh
	mkdir -p $(SITES_MOQ)
	bench/peers/moq/build.sh $(SITES_MOQ)

sites: deps $(if $(SITES),$(if $(findstring f,$(SITES)),$(SITES_BESIDE)),$(SITES_BESIDE)) ## what relays promise between sites, with processes on hosts of a lab, judged, as docs/figures-sites; as root, ten minutes on a quiet machine
	$(CARGO) build $(LOCKED) --release -p qsm-cli
	$(CARGO) build $(LOCKED) --release -p qsm-system
	$(TARGET_DIR)/release/sites $(SITES:%=--parts %) --runs $(SITES_RUNS) --nats $(SITES_NATS) --moq $(SITES_MOQ) --out $(FIGURES_SITES)

paths: deps ## multicast that stops to pass in mid-stream, towards one receiver of 100,000 groups and towards all, judged; as root, ten minutes on a quiet machine
	$(CARGO) build $(LOCKED) --release -p qsm-system
	$(TARGET_DIR)/release/paths

FIGURES_GROUPCAST := docs/figures-groupcast
PREFIX ?= /usr/local

figures-groupcast: deps ## E52-E57 of group unicast as CSV and SVG; needs root and a quiet machine
	$(CARGO) build $(LOCKED) --release -p groupcast --bin groupcast --example rtp_live
	$(TARGET_DIR)/release/groupcast bench --out $(FIGURES_GROUPCAST)
	$(TARGET_DIR)/release/examples/rtp_live --out $(FIGURES_GROUPCAST) \
	  --predict $(TARGET_DIR)/release/groupcast
	$(TARGET_DIR)/release/groupcast page --out $(FIGURES_GROUPCAST)

capi: ## build the library for C and C++ and install it below PREFIX (/usr/local)
	$(CARGO) build $(LOCKED) --release -p qsm-capi
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 644 crates/qsm-capi/include/qsm.h $(DESTDIR)$(PREFIX)/include
	install -m 644 $(TARGET_DIR)/release/libqsm_capi.a $(DESTDIR)$(PREFIX)/lib/libqsm.a
	install -m 755 $(TARGET_DIR)/release/libqsm_capi.so $(DESTDIR)$(PREFIX)/lib/libqsm.so.2
	ln -sf libqsm.so.2 $(DESTDIR)$(PREFIX)/lib/libqsm.so
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' crates/qsm-capi/include/qsm.pc.in \
	  > $(DESTDIR)$(PREFIX)/lib/pkgconfig/qsm.pc

python: $(PYTHON_ENVIRONMENT)/bin/pytest ## build the wheel for Python
	$(PYTHON_ENVIRONMENT)/bin/pip install -q --disable-pip-version-check 'maturin>=1.9.4,<2'
	cd crates/qsm-python && $(PYTHON_ENVIRONMENT)/bin/maturin build $(LOCKED) --release \
	  --out $(abspath $(TARGET_DIR))/wheels

JAVA_BUILD := $(abspath $(TARGET_DIR))/java
JAVA_NATIVE := $(JAVA_BUILD)/native/linux-$(shell uname -m)
# Its own folder of jars, so that the project that tries the jar finds no other.
JAVA_PROJECT := $(JAVA_BUILD)/project
MAVEN := mvn -q -B -Dmaven.repo.local=$(JAVA_BUILD)/repository

java: ## build the jar for Java, its sources and documentation, and try it in a fresh project; as Maven does, from its registry
	$(call need,javac:default-jdk-headless mvn:maven)
	$(CARGO) build $(LOCKED) --release -p qsm-java
	install -D -m 755 $(TARGET_DIR)/release/libqsm_java.so $(JAVA_NATIVE)/libqsm_java.so
	$(MAVEN) -f crates/qsm-java/java/pom.xml -Dqsm.build=$(JAVA_BUILD)/build -Dqsm.native=$(JAVA_BUILD)/native \
	  -Dproject.build.outputTimestamp=$(SOURCE_DATE_EPOCH) -DskipTests install
	$(MAVEN) -f crates/qsm-java/tests/project/pom.xml -Dbuild=$(JAVA_PROJECT) -Dqsm.version=$(VERSION) compile
	@said=$$(java -cp $(JAVA_PROJECT)/classes:$(JAVA_BUILD)/build/qsm-$(VERSION).jar prices.Main java-$$$$) && \
	  test "$$said" = "$(VERSION) 42" || { echo "the project said: $$said" >&2; exit 1; }
	@ls -l $(JAVA_BUILD)/build/*.jar

groupcast-capi: ## build sendgroup() for C and install it below PREFIX (/usr/local)
	$(CARGO) rustc $(LOCKED) --release -p groupcast --lib --crate-type staticlib
	$(CARGO) rustc $(LOCKED) --release -p groupcast --lib --crate-type cdylib
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 644 crates/groupcast/include/groupcast.h $(DESTDIR)$(PREFIX)/include
	install -m 644 $(TARGET_DIR)/release/libgroupcast.a $(DESTDIR)$(PREFIX)/lib
	install -m 755 $(TARGET_DIR)/release/libgroupcast.so $(DESTDIR)$(PREFIX)/lib
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' crates/groupcast/include/groupcast.pc.in \
	  > $(DESTDIR)$(PREFIX)/lib/pkgconfig/groupcast.pc

bench-quick: deps ## the short benchmark: throughput beside the raw ceiling, repair latency
	$(CARGO) run $(LOCKED) --release -p qsm-bench -- quick

FIGURES_BINDINGS := $(abspath $(TARGET_DIR))/bindings
# Times that every receiver has its turn.
ROUNDS ?= 7

figures-bindings: deps ## rates of receiving in C, Java and Python beside Rust, with pyzmq beside them; minutes
	$(CARGO) build $(LOCKED) --release -p qsm-bench -p qsm-capi -p qsm-java -p qsm-python
	bench/peers/bindings/build.sh $(TARGET_DIR)/release $(FIGURES_BINDINGS)
	$(TARGET_DIR)/release/qsm-bench bindings --from $(FIGURES_BINDINGS) --python $(QSM_PYTHON) --rounds $(ROUNDS)

# Seconds that each state has.
STALLS ?= 15

figures-stalls: deps ## lateness of a reader in Rust while one in Python, of the same engine, stands still: two minutes and what it builds
	$(CARGO) build $(LOCKED) --release -p qsm-bench -p qsm-python
	bench/peers/bindings/build.sh $(TARGET_DIR)/release $(FIGURES_BINDINGS) python
	$(TARGET_DIR)/release/qsm-bench stalls --from $(FIGURES_BINDINGS) --python $(QSM_PYTHON) --rounds $(STALLS)

FIGURES_RUNTIME := docs/figures-runtime

# E.g. RUNTIME="--rounds 5", RUNTIME="--busy" on a machine that does other work.
RUNTIME ?=

figures-runtime: deps ## memory, pauses and rates of receivers in Rust, Java and Python, over groups and rate: seven minutes and what it builds
	$(CARGO) build $(LOCKED) --release -p qsm-bench -p qsm-java -p qsm-python
	bench/peers/bindings/build.sh $(TARGET_DIR)/release $(FIGURES_BINDINGS) java python
	$(TARGET_DIR)/release/qsm-bench runtime --from $(FIGURES_BINDINGS) --python $(QSM_PYTHON) --output $(FIGURES_RUNTIME) $(RUNTIME)

bench-deps: deps ## install and build the systems of `make bench`; what cannot be had is left out
	$(CARGO) run $(LOCKED) --release -p qsm-bench -- compare --install-only

# E.g. BENCH="--quick", BENCH="--systems quicksilver,aeron --axes loss".
BENCH ?=

bench: deps ## Quicksilver beside other systems: hours, or ten minutes with BENCH=--quick; writes docs/benchmarks.md
	$(CARGO) run $(LOCKED) --release -p qsm-bench -- compare $(BENCH)

# Runs of each kind of protection.
PROTECTION_RUNS ?= 9
# Its kinds.
PROTECTIONS ?= none,key,key-aegis,tokens,tokens-aegis,audit,verified,verified-aegis
# Bytes in a second that a sender may send where the network is to be the limit: 1 Gbit/s with the frames of an Ethernet.
PROTECTION_LIMIT ?= 112M
protection = $(TARGET_DIR)/release/qsm bench throughput --protect $(PROTECTIONS) --receivers 2 --runs $(PROTECTION_RUNS)

protection: deps ## what keys, tokens and proof of origin cost over loopback and, as root, between hosts of a lab; on a quiet machine
	$(CARGO) build $(LOCKED) --release -p qsm-cli
	$(protection)
	if [ "$$(id -u)" = 0 ]; then $(protection) --lab && $(protection) --lab --send-limit $(PROTECTION_LIMIT); fi

# Members, bytes of an update, and runs of each order.
ORDER ?= 5 1000 5

order: deps ## rate and latency of replicated updates in a total order beside those without, over loopback: some minutes on a quiet machine
	$(CARGO) run $(LOCKED) --release -p qsm-replica --example rate -- $(ORDER)

# Joins of `make joins` in each order, and what else the program is told, e.g. JOINS_WITH="--orders total --seed 7".
JOINS ?= 100
JOINS_WITH ?=
# The long snapshot: bytes, and bits a second that each host may send.
SNAPSHOT ?= 1000000000
LINK ?= 1000000000

joins: deps ## replicas that join during 50,000 updates/s while others are killed, and a snapshot of 1 GB, judged; as root between hosts of a lab, otherwise over loopback: minutes on a quiet machine
	$(CARGO) build $(LOCKED) --release -p qsm-system
	@failed=0; \
	$(TARGET_DIR)/release/joins --joins $(JOINS) $(JOINS_WITH) || failed=1; \
	$(TARGET_DIR)/release/joins --orders source --snapshot $(SNAPSHOT) --limit $(LINK) --runs 3 || failed=1; \
	$(TARGET_DIR)/release/joins --orders source --snapshot $(SNAPSHOT) --runs 3 || failed=1; \
	exit $$failed

figures: ## run the experiments of the papers and write docs/figures; an hour on two cores
	$(CARGO) build $(LOCKED) --release -p qsm-cli
	$(TARGET_DIR)/release/qsm sim figure all --output docs/figures

# Length of each of the five measurements of `make figures-host`, seconds.
HOST_SECONDS ?= 60

figures-host: ## latency of this host beside Informatica's paper (E45-E48), as docs/figures-host: five minutes; as root
	$(CARGO) build $(LOCKED) --release -p qsm-cli
	$(TARGET_DIR)/release/qsm latency host --seconds $(HOST_SECONDS) --page docs/figures-host

# Packets of each size in `make figures-relay`.
RELAY_SAMPLES ?= 20000

figures-relay: ## E50 and E51, what a packet costs a relay, as docs/figures-relay: a minute, on a quiet machine
	$(CARGO) run $(LOCKED) --release -q -p qsm-relay --example figures -- --out docs/figures-relay --samples $(RELAY_SAMPLES)

figures-page: ## write docs/figures/README.md anew from its CSV files, without a run
	$(CARGO) run $(LOCKED) -q -p qsm-figures --example page docs/figures

# What `make book` installs if it is missing; the program's documentation server is left out.
MDBOOK_VERSION := 0.5.4

book: ## the documents as a book, target/book/index.html; a dead link ends it. Installs mdBook by cargo
	@command -v mdbook >/dev/null || \
	  $(CARGO) install mdbook --locked --version $(MDBOOK_VERSION) --no-default-features --features search
	mdbook build

publish-check: ## package every public crate and build it from its packages, as `cargo publish` would; needs crates.io
	$(CARGO) publish --workspace --dry-run $(LOCKED) --allow-dirty

# What `make manifests-check` installs: of Kubernetes' types, and the program that fills in charts.
KUBERNETES_VALIDATE := kubernetes-validate==1.37.0
HELM := helm.sh/helm/v3/cmd/helm@v3.17.3
CHART := packaging/helm/quicksilver

manifests-check: $(PYTHON_ENVIRONMENT)/bin/pytest ## the manifests and the chart for Kubernetes, against its types; installs helm (Go) and kubernetes-validate
	$(PYTHON_ENVIRONMENT)/bin/pip install -q --disable-pip-version-check $(KUBERNETES_VALIDATE)
	@test -x $(TARGET_DIR)/go/helm || { command -v go >/dev/null || { \
	  echo "go is missing: it builds helm, see https://go.dev/dl" >&2; exit 1; }; \
	  GOBIN=$(abspath $(TARGET_DIR))/go go install $(HELM); }
	packaging/helm/check $(abspath $(TARGET_DIR))/go/helm $(PYTHON_ENVIRONMENT)/bin/kubernetes-validate

# What `make package` installs if it is missing, and the target of the static program.
CARGO_DEB_VERSION := 3.8.0
STATIC_TARGET := $(shell uname -m)-unknown-linux-musl
# In the repository whatever CARGO_TARGET_DIR says: the package's list of files names it.
PACKAGES := target/package
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
ARCHIVE := qsm-$(VERSION)-linux-$(shell uname -m)
# The time of all files of packages: that of the commit, so that the same sources give the same packages.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
# Of these alone: what C compilers are given is built anew whenever it changes.
package package-check: export SOURCE_DATE_EPOCH := $(SOURCE_DATE_EPOCH)

alerts-check: ## promtool tries the alerts, and reads what the dashboard asks; installs Debian's prometheus
	$(call need,promtool:prometheus jq:jq)
	promtool check rules packaging/prometheus/alerts.yml
	promtool test rules packaging/prometheus/alerts.test.yml
	@file=$$(mktemp); trap 'rm -f "$$file"' EXIT; \
	jq '[.panels[].targets[]?.expr | gsub("\\$$__rate_interval"; "1m")] | to_entries \
	  | {groups: [{name: "dashboard", rules: map({record: "query_\(.key)", expr: .value})}]}' \
	  packaging/grafana/quicksilver.json > "$$file"; \
	promtool check rules "$$file"

dash-check: ## the pages in a browser, 200 nodes among them; installs Debian's chromium
	$(call need,$(CHROMIUM))
	$(CARGO) test $(LOCKED) -p qsm-dash --test browser -- --nocapture --test-threads 1
	$(CARGO) test $(LOCKED) -p qsm-cli --test dash --test web

package-deps:
	$(call need,musl-gcc:musl-tools)
	@command -v cargo-deb >/dev/null || $(CARGO) install cargo-deb --locked --version $(CARGO_DEB_VERSION)
	@rustc --print target-libdir --target $(STATIC_TARGET) | xargs test -d || rustup target add $(STATIC_TARGET)

package: package-deps ## a .deb (installs cargo-deb) and a static tarball (adds the musl target and its C compiler), in target/package
	$(CARGO) build $(LOCKED) --release -p qsm-cli
	$(CARGO) build $(LOCKED) --release -p qsm-cli --target $(STATIC_TARGET)
	rm -rf $(PACKAGES)/share $(PACKAGES)/$(ARCHIVE) $(PACKAGES)/*.deb $(PACKAGES)/*.tar.gz
	packaging/share $(TARGET_DIR)/release/qsm $(PACKAGES)/share
	$(CARGO) deb $(LOCKED) --no-build -p qsm-cli --output $(PACKAGES)/
	packaging/archive $(TARGET_DIR)/$(STATIC_TARGET)/release/qsm $(PACKAGES)/share $(PACKAGES)/$(ARCHIVE)
	@ls -l $(PACKAGES)/*.deb $(PACKAGES)/*.tar.gz

package-check: deps ## install the packages of `make package` in roots of their own, and use them; as root
	packaging/check $(PACKAGES)/*.deb $(PACKAGES)/*.tar.gz
