#!/usr/bin/env bash
# Installs what tare needs to be built, shown and tested, on Debian 12 and its kin. Does nothing, and needs no network,
# when all of it is there. Nothing that gets installed on the way is started, nor at the next boot.
# Arguments: --build for what building alone needs, --show for what `make demo` and `make bench` need besides; further
# packages, for what needs more than the rest.
set -euo pipefail

die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
have() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1; }

# DuckDB, which opens the Parquet files of snapshots, is no package of Debian's: it is kept beside what is built, in a Python
# environment of its own, where a test finds it.
duckdb=target/duckdb
have_duckdb() { "${TARE_DUCKDB_PYTHON:-$duckdb/bin/python}" -c 'import duckdb' 2>/dev/null; }
install_duckdb() {
    printf 'setup: installing DuckDB in %s\n' "$duckdb"
    python3 -m venv --clear "$duckdb" \
        && "$duckdb/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: 'duckdb==1.*'
}

# Before anything is installed: Debian 12's own Cargo is too old to say so, it stumbles over the manifests.
cd "$(dirname "$0")/.."
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
have cargo || PATH=$HOME/.cargo/bin:$PATH
found=$(rustc --version 2>/dev/null | sed -n 's/^rustc \([0-9.]*\).*/\1/p') || true
[ -n "$found" ] || die "a Rust toolchain is needed, $oldest or newer: see https://rustup.rs"
[ "$(printf '%s\n' "$oldest" "$found" | sort -V | head -n 1)" = "$oldest" ] \
    || die "Rust $oldest or newer is needed, and this is $found: rustup update stable, or see https://rustup.rs"

# What is needed, by what shows that it is there, and the package that brings it.
wanted=()
want() { wanted+=("$1"); }
have cc                  || want gcc
[ -e "$(cc -print-file-name=crt1.o 2>/dev/null)" ] || want libc6-dev
for_tests=
if [ "${1:-}" = --build ]; then
    shift
else
    have mariadbd            || want mariadb-server
    have mariadb-install-db  || want mariadb-server
    have mariadb             || want mariadb-client
    have sysbench            || want sysbench
    [ -e /usr/lib/mysql/plugin/ha_federatedx.so ] || want mariadb-server
    [ -d /usr/share/sysbench ] || want sysbench
    if [ "${1:-}" = --show ]; then
        shift
    else
        for_tests=yes
        have jq                  || want jq
        have valgrind            || want valgrind
        have prometheus-mysqld-exporter || want prometheus-mysqld-exporter
        { have prometheus && have promtool; } || want prometheus
        have pt-query-digest     || want percona-toolkit
        have mariadb-backup      || want mariadb-backup
        have ssh                 || want openssh-client
        have sshd                || want openssh-server
        have ip                  || want iproute2
        have python3             || want python3
        have_duckdb || python3 -c 'import ensurepip, venv' 2>/dev/null || want python3-venv
    fi
fi
# A package that others only recommend is known to dpkg, too: what counts is that it is installed.
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
for package in "$@"; do installed "$package" || want "$package"; done

# Fetches the lists of packages. A machine that has just started may be fetching them itself: that is waited for.
update() {
    local said turn
    for turn in {1..60}; do
        said=$("$@" env LC_ALL=C apt-get update -qq 2>&1) && return
        grep -q 'Could not get lock' <<<"$said" || break
        [ "$turn" -gt 1 ] || echo 'setup: waiting for apt, which somebody else uses'
        sleep 5
    done
    printf '%s\n' "$said" >&2
    return 1
}

install() {
    have apt-get || die "these programs' packages are missing and there is no apt-get to install them with: $*"
    local root=()
    if [ "$(id -u)" -ne 0 ]; then
        have sudo || die "run as root, or install: apt-get install $*"
        root=(sudo)
    fi
    # Two at once (make -j) would take apt's lock from each other, and the file below.
    exec 9< scripts/setup.sh && flock 9
    printf 'setup: installing %s\n' "$*"
    # Debian starts a server when it is installed, unless this file forbids it. One that is there is the administrator's.
    local policy=/usr/sbin/policy-rc.d placed=
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
        "${root[@]}" chmod 755 "$policy"
        placed=yes
    fi
    # What the packages would start at every boot from now on, and was not there before.
    local unit units=()
    for unit in mariadb prometheus prometheus-mysqld-exporter ssh; do
        [ -e "/lib/systemd/system/$unit.service" ] || units+=("$unit")
    done
    local status=0
    update "${root[@]}" \
        && "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -o DPkg::Lock::Timeout=300 \
            -y -qq --no-install-recommends "$@" >/dev/null \
        || status=$?
    [ -z "$placed" ] || "${root[@]}" rm -f "$policy"
    for unit in "${units[@]}"; do
        [ ! -e "/lib/systemd/system/$unit.service" ] || ! have systemctl \
            || "${root[@]}" systemctl disable --quiet "$unit" 2>/dev/null || true
    done
    return "$status"
}

if [ "${#wanted[@]}" -gt 0 ]; then
    mapfile -t packages < <(printf '%s\n' "${wanted[@]}" | sort -u)
    install "${packages[@]}" || die "could not install: ${packages[*]}"
fi
# One test less, where it cannot be had.
if [ -n "$for_tests" ] && ! have_duckdb; then
    install_duckdb || echo 'setup: DuckDB could not be installed: the test that opens snapshots with it will say so and be skipped' >&2
fi
