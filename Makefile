# tare: the commands one needs. `make` alone lists them.

SHELL := /bin/bash
CARGO := $(or $(shell command -v cargo),$(HOME)/.cargo/bin/cargo)
export PATH := $(dir $(CARGO)):$(PATH)
# Arguments for the programs: make demo ARGS="--secs 60", make bench ARGS="--rounds 10".
ARGS ?=

.PHONY: help setup build demo bench check test test-hosts

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing (Debian 12; a Rust toolchain must be there)
	@scripts/setup.sh

# The provider is built as a cdylib alone: built together with the rlib, cargo leaves link-time optimisation out, and the
# engine's code is then called instead of inlined.
build: setup ## build the command line and the provider, optimised
	@cargo build --quiet --locked --release -p tare
	@cargo rustc --quiet --locked --release -p tare-mariadb --lib --crate-type cdylib

demo: build ## see it work: a stock server with tare, under load
	@target/release/tare demo $(ARGS)

bench: build ## measure what it costs: off, off again, tare, built-in
	@target/release/tare bench $(ARGS)

check: setup ## formatting and lints
	cargo fmt --all --check
	cargo clippy --quiet --locked --workspace --all-targets -- -D warnings

# The tests are built unoptimised, which is quick; what they load into servers is the optimised provider.
test: check build ## the whole test suite; CI calls exactly this
	TARE_PROVIDER=$(CURDIR)/target/release/libtare_mariadb.so cargo test --quiet --locked --workspace

test-hosts: build ## the suite's server tests on other MariaDB versions (downloads them)
	TARE_PROVIDER=$(CURDIR)/target/release/libtare_mariadb.so scripts/hosts.sh
