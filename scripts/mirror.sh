# Where a distribution's packages come from; sourced by scripts that bring more of one than this machine has. No address is
# built in: which mirror may be used, and can be reached, is the machine's affair.

# mirror VARIABLE ORIGIN LABEL: prints what the variable names, or else the first address in this machine's apt configuration
# whose archive says that it is of this origin and label. Fails, with a line that says what to do, where there is neither.
mirror() {
    local found=${!1:-}
    if [ -z "$found" ] && command -v apt-get >/dev/null; then
        # shellcheck disable=SC2016 # the braces are apt's
        found=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Origin: $2" "Label: $3" 2>/dev/null) || true
        found=$(sed -n '/^https\{0,1\}:/ { p; q }' <<<"$found")
    fi
    if [ -z "$found" ]; then
        printf '%s: no mirror of %s: the apt configuration of this machine names none (or needs apt-get update); set %s=http://HOST/PATH\n' \
            "$(basename "$0" .sh)" "$3" "$1" >&2
        return 1
    fi
    # Several, as a variable may name them, lose the slashes at their ends.
    sed 's,/*\( \|$\),\1,g' <<<"$found"
}
