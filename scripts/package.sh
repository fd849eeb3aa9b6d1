#!/usr/bin/env bash
# Builds what is given to others: the same bytes from the same commit and toolchain, wherever the source lies.
#
#   scripts/package.sh deb       a Debian package in target/package/
#   scripts/package.sh sbom      a list of every crate the package is made of, as CycloneDX; builds nothing
#   scripts/package.sh notices   the terms of those that are in its files; likewise
#   scripts/package.sh release   package, list, a tarball, this version's section of the changelog, and the checksums of all
#   scripts/package.sh tag TAG   fails unless this version is the tag's, and the changelog has a section of it
#   scripts/package.sh compare   builds the package here and, from what is committed, in another folder, and compares the bytes
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD

die() { printf 'package: %s\n' "$*" >&2; exit 1; }
say() { printf 'package: %s\n' "$*" >&2; }

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The commit's time stands for all files', also where there is no git.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null)} || die "no git: set SOURCE_DATE_EPOCH"
export SOURCE_DATE_EPOCH
target=$source/target/package
files=$target/files
# Paths of this machine do not get into what is built. What a debugger reads is stripped in the end: it is not made at all,
# because it would leave a trace, the build id, which is a sum over everything.
export RUSTFLAGS="--remap-path-prefix=$source=/tare --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
export CARGO_PROFILE_RELEASE_DEBUG=false

# tool NAME VERSION: where cargo's tool of this name is; it is installed where it is missing. The version is fixed: what a
# package is made by is seen in its bytes.
tool() {
    local place
    for place in "$(command -v "$1" || true)" "${CARGO_HOME:-$HOME/.cargo}/bin/$1" "$target/tools/bin/$1"; do
        [ ! -x "$place" ] || [ "$("$place" --version | grep -o '[0-9][0-9.]*$')" != "$2" ] || { printf '%s' "$place"; return; }
    done
    say "installing $1 $2 into $target/tools; this takes some minutes"
    RUSTFLAGS='' cargo install --quiet --locked --root "$target/tools" "$1@$2" >&2 || die "$1 cannot be had here"
    printf '%s' "$target/tools/bin/$1"
}
cargo_deb() { tool cargo-deb 3.8.0; }

# Cargo's tree of what is built of `tare`, without what tests need and without other crates' wishes for features. The
# program is built of all that the provider for MariaDB is; that for MySQL has one crate of its own.
tree() { cargo tree --locked -p tare -p tare-mysql --target x86_64-unknown-linux-gnu "$@"; }

# Prints terms and notices of the crates that are in the files: their licences want them to go along. Each text stands there once.
notices() (
    command -v jq >/dev/null || die "jq is missing: apt-get install jq"
    local crate version licence manifest file text
    local -x LC_ALL=C
    local -A folders first
    shopt -s nocaseglob nullglob
    while read -r crate manifest; do folders[$crate]=${manifest%/*}; done < <(cargo metadata --locked --format-version 1 \
        --filter-platform x86_64-unknown-linux-gnu | jq -r '.packages[] | select(.source) | "\(.name)-\(.version) \(.manifest_path)"')
    while read -r crate version licence; do
        crate=$crate-${version#v}
        [ -n "${folders[$crate]:-}" ] || continue
        printf '==== %s (%s)\n\n' "$crate" "${licence:-see below}"
        # scripts/licences has the texts of crates that come without, by name.
        for file in {"${folders[$crate]}","scripts/licences/${crate%-*}"}/{licen[cs]e,unlicense,copying,copyright,notice}*; do
            [ -f "$file" ] || continue
            text=$(<"$file")
            if [ -z "${first[$text]:-}" ]; then
                first[$text]="$crate, ${file##*/}"
                printf '%s:\n\n%s\n\n' "${file##*/}" "$text"
            else
                printf '%s: as of %s\n\n' "${file##*/}" "${first[$text]}"
            fi
        done
    done < <(tree -e normal,no-proc-macro --prefix none --no-dedupe --format '{p} {l}' | sed 's| (/[^)]*)||' | sort -u)
)

# The one folder both the package and the tarball are made of.
build() {
    say "building $version optimised; this takes some minutes, without a word"
    mkdir -p "$files"
    # Without the commit's time, which nothing of it is in: what compiles C looks at it, and each commit would build all anew.
    local provider
    for provider in mariadb mysql; do
        env -u SOURCE_DATE_EPOCH cargo rustc --quiet --locked --profile provider -p "tare-$provider" --lib --crate-type cdylib \
            --target-dir "$target/program" -- -C llvm-args=-align-all-functions=6
        strip --strip-unneeded -o "$files/libtare_$provider.so" "$target/program/provider/libtare_$provider.so"
    done
    env -u SOURCE_DATE_EPOCH cargo build --quiet --locked --release -p tare --target-dir "$target/program"
    strip --strip-unneeded -o "$files/tare" "$target/program/release/tare"
    rm -rf "$files/man" "$files/completions"
    "$files/tare" documents "$files"
    gzip -9n "$files"/man/*
    notices > "$files/NOTICES"
    gzip -9nc "$files/NOTICES" > "$files/NOTICES.gz"
    gzip -9nc CHANGELOG.md > "$files/changelog.gz"
    printf 'tare (%s-1) unstable; urgency=medium\n\n  * What changed is in changelog.gz.\n\n -- %s  %s\n' "$version" \
        'The tare project <maintainers@tare.invalid>' "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" \
        | gzip -9nc > "$files/changelog.Debian.gz"
}

deb() {
    local program
    program=$(cargo_deb)
    build
    CARGO_TARGET_DIR=$target/program "$program" -q --no-build --no-strip -p tare --output "$target/tare_${version}_amd64.deb"
    ! command -v lintian >/dev/null || lintian --fail-on error,warning "$target/tare_${version}_amd64.deb" >&2
    say "$target/tare_${version}_amd64.deb"
}

tarball() {
    local name=tare-$version-x86_64-linux
    rm -rf "${target:?}/$name"
    mkdir -p "$target/$name/"{bin,lib/tare,share}
    cp "$files/tare" "$target/$name/bin/"
    cp "$files"/libtare_{mariadb,mysql}.so "$target/$name/lib/tare/"
    cp -r "$files/man" "$files/completions" "$target/$name/share/"
    cp "$files/NOTICES" README.md SECURITY.md ARCHITECTURE.md CONTRIBUTING.md SAFETY.md CHANGELOG.md COPYING LICENSE-* "$target/$name/"
    mkdir "$target/$name/docs"
    cp -r docs/{README.md,tutorials,how-to,reference,explanation,lab-notes,pictures,ci,deploy,grafana} "$target/$name/docs/"
    cp -r docs/deploy scripts/systemd docs/grafana "$target/$name/share/"
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
        -C "$target" -c "$name" | gzip -9n > "$target/$name.tar.gz"
}

# A folder $work, which is removed when the script has ended.
scratch() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
}

# Prints what the program and the providers are made of.
sbom() {
    command -v jq >/dev/null || die "jq is missing: apt-get install jq"
    scratch
    tree -e normal,build --prefix depth --format '{p}|{l}|{r}' > "$work/built"
    tree -e normal,no-proc-macro --prefix depth --format '{p}|{l}|{r}' > "$work/linked"
    jq -n --rawfile lock Cargo.lock --rawfile built "$work/built" --rawfile linked "$work/linked" \
        --arg epoch "$SOURCE_DATE_EPOCH" --arg compiler "$(rustc --version | cut -d' ' -f2)" -f scripts/sbom.jq
}

release() {
    deb
    tarball
    sbom > "$target/tare-$version.cdx.json"
    # The section of this version, and what has changed since, if there is something: it is in the files.
    awk -v v="[$version]" '/^## \[/ { on = index($0, v) || (!seen && /Unreleased/); if (index($0, v)) seen = 1 } on' \
        CHANGELOG.md > "$target/CHANGES"
    ! grep -q Unreleased "$target/CHANGES" || say "CHANGELOG.md has unreleased changes: cut a version before this is given to others"
    printf '\nBuilt by %s; the same commit and compiler make the same bytes.\n' "$(rustc --version)" >> "$target/CHANGES"
    (cd "$target" && sha256sum "tare_${version}_amd64.deb" "tare-$version-x86_64-linux.tar.gz" "tare-$version.cdx.json" CHANGES \
        > SHA256SUMS)
    cat "$target/SHA256SUMS"
}

# Before a release: the tag, the version and the changelog are about the same.
tag() {
    [ "${1:-}" = "v$version" ] || die "the tag ${1:-} is not v$version, the version in Cargo.toml"
    grep -qF "## [$version]" CHANGELOG.md || die "CHANGELOG.md has no section [$version]"
    awk '/^## \[Unreleased\]/ { on = 1; next } /^## \[/ { on = 0 } on && /^- / { found = 1 } END { exit found }' CHANGELOG.md \
        || die "CHANGELOG.md has unreleased changes: they belong to $version or to no release"
}

# Of what is committed: this folder is to hold nothing else.
compare() {
    local own=$target/tare_${version}_amd64.deb other
    git diff --quiet HEAD || die "commit first: what is compared is what is committed"
    deb
    scratch
    mkdir -p "$work/another/folder"
    git archive HEAD | tar -x -C "$work/another/folder"
    (cd "$work/another/folder" && PATH="$(dirname "$(cargo_deb)"):$PATH" scripts/package.sh deb)
    other=$work/another/folder/target/package/$(basename "$own")
    cmp "$own" "$other" || die "the two packages differ"
    say "both packages are the same, byte for byte: $(sha256sum < "$own" | cut -d' ' -f1)"
}

case ${1:-} in
    deb | sbom | notices | release | compare) "$1" ;;
    tag) tag "${2:-}" ;;
    *) die "what to build: deb, sbom, notices, release or compare" ;;
esac
