# tare: the commands one needs. `make` alone lists them.

SHELL := /bin/bash
CARGO := $(or $(shell command -v cargo),$(HOME)/.cargo/bin/cargo)
export PATH := $(dir $(CARGO)):$(PATH)
# Arguments for the programs: make demo ARGS="--for 60s", make bench ARGS="--rounds 10".
ARGS ?=

.PHONY: provider-mysql test-unit test-nightly help book setup show tools packaging provider command-line build demo bench lab-calibrate lab-simulation lab-record lab-precision callgrind cachegrind jumps samples check deb deb-compare release repository outlets-cost test test-hosts test-mtr test-bare test-repository test-recipes test-miri test-random test-valgrind test-scale test-slowlog

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing (Debian 12; a Rust toolchain must be there)
	@scripts/setup.sh

# What a server under load takes, without what tests take besides.
show:
	@scripts/setup.sh --show

# What building alone needs: a server's administrator builds without a load generator and a debugger.
tools:
	@scripts/setup.sh --build

# Built as a cdylib alone: built together with the rlib, cargo leaves link-time optimisation out, and the engine's code is
# then called instead of inlined. The profile `provider` links everything at once, which takes one processor a minute.
provider: tools libtare_mariadb.so

provider-mysql: tools libtare_mysql.so ## build the provider for MySQL, optimised (experimental)

.PHONY: libtare_mariadb.so libtare_mysql.so
libtare_mariadb.so libtare_mysql.so: libtare_%.so:
	cargo rustc --locked --profile provider -p tare-$* --lib --crate-type cdylib -- -C llvm-args=-align-all-functions=6
	@scripts/replace.sh target/provider/$@ target/release/$@

command-line: tools
	cargo build --locked --release -p tare

# Linking the provider takes one processor; the other compiles the command line.
build: ## build the provider and the command line, optimised
	@$(MAKE) --no-print-directory --jobs=2 provider command-line

demo: show build ## see it work: a stock server with tare, under load
	@target/release/tare demo $(ARGS)

bench: show build ## measure what it costs: off, off again, tare, MariaDB's own
	@target/release/tare lab bench $(ARGS)

lab-calibrate: setup ## weigh the lab: are costs of known size found, of every kind? 40 minutes; writes docs/lab-notes/method.md (ARGS="20 9": runs, blocks)
	@cargo run --quiet --locked --release -p tare-lab --example calibrate -- truth $(ARGS)

lab-simulation: setup ## how often its intervals err when errors are skewed; a minute; writes docs/lab-notes/method.md (ARGS="4000": studies)
	@cargo run --quiet --locked --release -p tare-lab --example calibrate -- simulation $(ARGS)

lab-record: setup ## record turns of servers that are all alike, for a test that injects costs into them; 8 minutes (ARGS="60": blocks)
	@cargo run --quiet --locked --release -p tare-lab --example calibrate -- record $(ARGS)

lab-precision: setup ## the lab beside measuring one after the other; an hour; writes docs/lab-notes/method.md (ARGS="10 10": runs, minutes at most)
	@cargo run --quiet --locked --release -p tare-lab --example calibrate -- precision $(ARGS)

callgrind: setup ## count the instructions that recording one transaction takes, and where they go
	@scripts/callgrind.sh

cachegrind: setup provider ## count what a statement costs a server in instructions and cache misses, by function; some minutes (ARGS="level=sums")
	@scripts/cachegrind.sh $(ARGS)

jumps: setup provider ## count the jumps that tare takes for a statement, by function and place; a minute
	@scripts/jumps.sh $(ARGS)

samples: setup provider ## sample a running server: where in tare it spends its time, by line of the source (needs perf)
	@scripts/samples.sh $(ARGS)

.PHONY: format test-programs
format:
	cargo fmt --all --check

test-programs:
	@scripts/test.sh --build

check: tools format ## formatting, lints, documentation and its links; licences and advisories where cargo-deny is there
	@scripts/links.sh
	cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --quiet --locked --workspace --no-deps --document-private-items
	@! grep -rnE '//[/!] As \[' crates --include='*.rs' || { echo 'check: a comment says what its own item does, not "As [other]"'; false; }
	@if command -v cargo-deny >/dev/null; then cargo deny --locked check; \
	else echo 'check: cargo-deny is not there (cargo install cargo-deny): licences and advisories were not looked at'; fi

# Without its server that rebuilds while one writes: half of what it depends on.
MDBOOK = 0.5.4
book: ## make the documentation a book with search, in target/book/html (builds mdBook first, once: some minutes)
	@scripts/setup.sh --build python3
	@[ -x target/mdbook-$(MDBOOK)/bin/mdbook ] || { echo 'book: building mdBook $(MDBOOK) in target/mdbook-$(MDBOOK), which takes some minutes, once'; \
	cargo install --quiet --locked --version $(MDBOOK) --no-default-features --features search --root target/mdbook-$(MDBOOK) mdbook \
	|| { echo 'book: mdBook could not be built: it needs crates.io'; false; }; }
	@scripts/book.py target/mdbook-$(MDBOOK)/bin/mdbook

# What packages are made with.
packaging:
	@scripts/setup.sh --build dpkg-dev jq

deb: packaging ## build a Debian package in target/package: command line, provider, manual pages, completions
	@scripts/package.sh deb

deb-compare: packaging ## build the package here and in another place, and hold one against the other
	@scripts/package.sh compare

release: packaging ## build what is released: package, tarball, list of what is in them (SBOM), the changelog's section, checksums
	@scripts/package.sh release

repository: ## make an apt repository of static files of the package (TARE_SIGNING_KEY=FINGERPRINT of a key that gpg has)
	@TARE_SIGNING_KEY="$(TARE_SIGNING_KEY)" scripts/repository.sh

# Ends with one line: how many tests passed, failed and were skipped. The tests are built unoptimised, which is quick; what
# they load into servers is the optimised provider. That is linked by one processor, while another one builds the tests. Tests
# wait for servers much of their time: meanwhile lints and documentation are checked.
test: setup format ## the whole test suite; CI calls exactly this
	@$(MAKE) --no-print-directory --jobs=2 provider test-programs
	TARE_PROVIDER=$(CURDIR)/target/release/libtare_mariadb.so TARE_TEST_BESIDE="make --no-print-directory check" scripts/test.sh

# Unit tests of every crate, and the tests of the engine, of the budget and of the tables.
test-unit: tools ## what needs no server
	cargo test --locked --workspace --lib --bins
	cargo test --locked -p tare-sync -p tare-engine -p tare-budget -p tare-tables --tests

# Each says itself what it needs. One that fails does not keep the others from running.
test-nightly: ## what takes hours: other hosts, the server's own suite, Miri, 2,000 random sessions, valgrind, scale
	@$(MAKE) --no-print-directory --keep-going test-hosts test-mtr test-miri test-random test-valgrind test-scale

# What is about a server and honours TARE_MARIADBD; unlike `make test`, with captured output shown, so that a test a host
# cannot take part in says why. Tests of tare-mariadb and tare-mysql load the provider Cargo has just built for them.
SERVER_TESTS = cargo test --quiet --locked --no-fail-fast -p tare-testkit -p tare-host -p tare-mariadb -p tare-mysql -- --show-output

test-hosts: setup build ## the suite's server tests on other MariaDB versions (downloads them)
	TARE_PROVIDER=$(CURDIR)/target/release/libtare_mariadb.so scripts/hosts.sh run $(SERVER_TESTS)

test-valgrind: setup provider ## server tests with every server that has tare under valgrind; an hour (ARGS="--test sessions": which)
	@scripts/valgrind.sh $(ARGS)

test-bare: deb ## the package on a bare Debian 12 in a chroot: installed, used, taken off (needs root, debootstrap and a network)
	@scripts/bare.sh

test-repository: deb ## the same from an apt repository, served on loopback, signed with a key that is made for it
	@scripts/setup.sh --build python3 gnupg
	@scripts/bare.sh repository

test-recipes: release ## the playbook and the Dockerfile of docs/deploy, in the same chroot
	@scripts/bare.sh recipes

test-mtr: setup provider ## the server's own tests, of the Performance Schema and of the host, with tare, against a list of known failures
	@scripts/setup.sh mariadb-test
	@scripts/mtr.sh

test-random: setup provider ## random sessions on MariaDB's own Performance Schema and on tare, compared (ARGS="--seed 1 --count 2000")
	@TARE_PROVIDER=$(CURDIR)/target/release/libtare_mariadb.so cargo run --quiet --locked -p tare-testkit --example random -- $(ARGS)

test-slowlog: setup provider ## log every statement of 64 connections for two minutes, to a fast disk and one that stalls: nothing is lost unsaid
	TARE_SLOWLOG_SECONDS=120 TARE_PROVIDER=$(CURDIR)/target/release/libtare_mariadb.so cargo test --quiet --locked -p tare-outlets --test slowlog -- load:: --nocapture --test-threads 1

test-miri: ## unit tests of the protocols and the engine, run by Miri (needs a nightly toolchain with it)
	@scripts/miri.sh $(ARGS)

outlets-cost: setup provider ## print what a reading of tare export and tare top costs a server with 5,000 digests, in CPU time (two minutes)
	TARE_PROVIDER=$(CURDIR)/target/release/libtare_mariadb.so cargo test --quiet --locked -p tare-outlets --test cost -- --ignored --nocapture

test-scale: setup provider ## read every table with 1,000 connections, 5,000 digests and 10,000 tables, and beside a load; prints what it takes
	TARE_PROVIDER=$(CURDIR)/target/release/libtare_mariadb.so cargo test --quiet --locked -p tare-testkit --test scale -- --ignored --nocapture
