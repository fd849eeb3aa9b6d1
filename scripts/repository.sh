#!/usr/bin/env bash
# Makes an apt repository of static files from the package that `make deb` has built, and of older ones, if they are given:
#
#   TARE_SIGNING_KEY=FINGERPRINT scripts/repository.sh [PACKAGE…]
#
# The key is in gpg's keyring (GNUPGHOME), with a passphrase if its agent knows it. The folder target/package/repository is
# then served by any web server, as it is. The same packages, key and SOURCE_DATE_EPOCH give the same files but for signatures.
set -euo pipefail
cd "$(dirname "$0")/.."
die() { printf 'repository: %s\n' "$*" >&2; exit 1; }

key=${TARE_SIGNING_KEY:-}
[ -n "$key" ] || die "TARE_SIGNING_KEY names no key: the fingerprint of one in gpg's keyring (gpg --list-secret-keys)"
command -v gpg >/dev/null || die "gpg is missing: apt-get install gnupg"
command -v dpkg-scanpackages >/dev/null || die "dpkg-scanpackages is missing: apt-get install dpkg-dev"
gpg --batch --list-secret-keys "$key" >/dev/null 2>&1 || die "gpg has no secret key $key"

packages=("$@")
[ ${#packages[@]} -gt 0 ] || packages=(target/package/tare_*_amd64.deb)
for package in "${packages[@]}"; do
    [ -f "$package" ] || die "$package is not there: make deb first"
done

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null)} || die "no git: set SOURCE_DATE_EPOCH"
to=${TARE_REPOSITORY:-target/package/repository}
new=$to.new
suite=stable
rm -rf "$new"
mkdir -p "$new/pool/main/t/tare" "$new/dists/$suite/main/binary-amd64"
# Under the names that dpkg-scanpackages looks for, whatever the files are called.
for package in "${packages[@]}"; do
    name=$(dpkg-deb -W --showformat '${Package}_${Version}_${Architecture}.deb' "$package") || die "$package is no package"
    cp "$package" "$new/pool/main/t/tare/$name"
done
chmod 644 "$new"/pool/main/t/tare/*

(
    cd "$new"
    index=dists/$suite/main/binary-amd64/Packages
    dpkg-scanpackages --multiversion --arch amd64 pool 2>/dev/null > "$index"
    [ -s "$index" ] || die "none of the packages is for amd64: ${packages[*]}"
    gzip -9nk "$index"
    (
        printf 'Origin: tare\nLabel: tare\nSuite: %s\nCodename: %s\n' "$suite" "$suite"
        printf 'Architectures: amd64\nComponents: main\nDescription: tare for stock MariaDB\n'
        printf 'Date: %s\nSHA256:\n' "$(LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S UTC')"
        cd "dists/$suite"
        for file in main/binary-amd64/Packages main/binary-amd64/Packages.gz; do
            printf ' %s %s %s\n' "$(sha256sum < "$file" | cut -d' ' -f1)" "$(stat -c %s "$file")" "$file"
        done
    ) > "$PWD/dists/$suite/Release"
    gpg --batch --yes --local-user "$key" --armor --detach-sign --output "dists/$suite/Release.gpg" "dists/$suite/Release"
    gpg --batch --yes --local-user "$key" --clear-sign --output "dists/$suite/InRelease" "dists/$suite/Release"
    gpg --batch --armor --export "$key" > tare.asc
)
# Readers see the old repository or the new one.
rm -rf "$to"
mv "$new" "$to"
printf 'repository: %s, signed by %s\n' "$to" "$key" >&2
