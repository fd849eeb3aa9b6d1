#!/bin/sh
# replace.sh FROM TO: TO becomes a copy of FROM, at once: whoever opens it meanwhile gets the old one or the new one, whole.
# A server that starts while a provider is copied would find none, and run without it. The same content stays as it is.
set -eu
cmp -s "$1" "$2" && exit 0
mkdir -p "$(dirname "$2")"
cp "$1" "$2.new"
mv "$2.new" "$2"
