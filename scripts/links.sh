#!/bin/bash
# Fails on a dead relative link or anchor in any Markdown file, and on a page below docs/ that does not begin with a title
# and whom it is for, or that the index (docs/README.md, and for tables docs/reference/tables.md) does not name.
# `make check` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t pages < <(git ls-files --cached --others --exclude-standard -- '*.md' | sort -u)
{
    git ls-files --cached --others --exclude-standard | while read -r file; do [ ! -e "$file" ] || echo "$file"; done
} | awk '
# The first input is the list of files, the others are the pages, twice: for their anchors, then for their links.
FILENAME == "-" {
    exists[$0] = 1
    for (folder = $0; sub(/\/[^\/]*$/, "", folder);) exists[folder] = 1
    next
}
FNR == 1 {
    pass = ++seen[FILENAME]; fenced = 0; before = ""
    folder = FILENAME; if (!sub(/\/[^\/]*$/, "", folder)) folder = ""
}
/^ *```/ { fenced = !fenced; next }
fenced { next }
pass == 1 {
    if (/^#+ /) anchors[FILENAME "#" unused(slug($0))] = 1
    next
}
# Of a page of docs/: its title, an empty line, then "For WHOM: WHAT".
FILENAME ~ /^docs\// && FNR == 1 && !/^# / { wrong("does not begin with a title") }
FILENAME ~ /^docs\// && FNR == 3 && !/^For [^:]+: ./ { wrong("does not say whom it is for: For WHOM: what they know afterwards") }
{
    text = $0
    gsub(/`[^`]*`/, "", text)
    while (match(text, /\]\([^) ]+/)) {
        link = substr(text, RSTART + 2, RLENGTH - 2)
        text = substr(text, RSTART + RLENGTH)
        check(link)
    }
}
END {
    for (page in exists)
        if (page ~ /^docs\/.*\.md$/ && page != "docs/README.md" && !(page in named)) {
            print page ": is not named in docs/README.md"; failed = 1
        }
    exit failed
}

function wrong(what) { print FILENAME ":" FNR ": " what; failed = 1 }

# As GitHub makes them: letters of ASCII, figures, - and _ stay; a blank becomes -.
function slug(heading) {
    sub(/^#+ +/, "", heading); sub(/ +$/, "", heading)
    heading = tolower(heading)
    gsub(/[^a-z0-9_ -]/, "", heading); gsub(/ /, "-", heading)
    return heading
}
# The second heading of a name in a page gets -1.
function unused(name,   place) {
    place = FILENAME "#" name
    return (place in count) ? name "-" count[place]++ : (count[place] = 1) ? name : name
}
function check(link,   path, anchor) {
    if (link ~ /^[a-z]+:/) return
    path = link; anchor = ""
    if (match(link, /#/)) { path = substr(link, 1, RSTART - 1); anchor = substr(link, RSTART + 1) }
    path = path == "" ? FILENAME : resolved(folder, path)
    if (FILENAME == "docs/README.md" || FILENAME == "docs/reference/tables.md") named[path] = 1
    if (!(path in exists)) wrong("dead link: " link)
    else if (anchor != "" && path ~ /\.md$/ && !((path "#" anchor) in anchors)) wrong("dead anchor: " link)
}
function resolved(from, path,   parts, n, i, kept, depth, whole) {
    n = split((from == "" ? "" : from "/") path, parts, "/")
    depth = 0
    for (i = 1; i <= n; i++) {
        if (parts[i] == "" || parts[i] == ".") continue
        if (parts[i] == "..") depth--
        else kept[++depth] = parts[i]
    }
    whole = kept[1]
    for (i = 2; i <= depth; i++) whole = whole "/" kept[i]
    return whole
}
' - "${pages[@]}" "${pages[@]}"
