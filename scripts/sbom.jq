# What a release is made of, as CycloneDX 1.6: every crate that is built into it, with licence, checksum and what it needs.
# scripts/package.sh calls it with $lock, the text of Cargo.lock, and what `cargo tree` prints of `tare` with depths: $built,
# everything that takes part in the build, and $linked, what of it is in the files that are shipped.

def reference: "\(.name)@\(.version)";

# Lines of `cargo tree`. A crate seen before stands there without what it needs, and with a mark.
def tree: split("\n") | map(select(. != "") | capture(
    "^(?<depth>[0-9]+)(?<name>[^ ]+) v(?<version>[^ |]+)(?<own> \\(/[^)]*\\))?[^|]*\\|(?<licence>[^|]*)\\|(?<repository>[^ ]*)")
    | .depth |= tonumber);

# The checksums of crates.io, by reference.
def checksums: split("[[package]]") | map(
    capture("\nname = \"(?<name>[^\"]+)\"\nversion = \"(?<version>[^\"]+)\"(.|\n)*\nchecksum = \"(?<checksum>[0-9a-f]{64})\"")
    | {key: reference, value: .checksum}) | from_entries;

# Who needs whom: the last line of each depth is what the next, deeper one belongs to.
def needs: reduce .[] as $line ({path: [], needs: {}};
    ($line | reference) as $this
    | .path[$line.depth] = $this
    | .needs[$this] += []
    | if $line.depth > 0 then .needs[.path[$line.depth - 1]] += [$this] else . end)
    | .needs;

# Older manifests say `/` where SPDX says `OR`, and one names a file, whose terms are ISC's.
def licences:
    (if reference == "webpki@0.22.4" then "ISC" else .licence end)
    | if . == "" then error("no licence is named by a crate: see its files, and scripts/sbom.jq") else gsub(" */ *"; " OR ") end
    | [{expression: .}];

($built | tree) as $tree
| ($linked | tree | map({key: reference, value: true}) | from_entries) as $linked
| ($lock | checksums) as $checksums
| ($tree[0]) as $root
| {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
        timestamp: ($epoch | tonumber | todate),
        component: {
            type: "application",
            "bom-ref": ($root | reference),
            name: $root.name,
            version: $root.version,
            # The files as a whole: COPYING says why.
            licenses: [{expression: "GPL-2.0-or-later"}]
        }
    },
    components: (
        ($tree[1:] | unique_by(reference) | map(
            reference as $reference
            | {
                type: "library",
                "bom-ref": $reference,
                name,
                version,
                # Excluded: code that is run to build it, such as macros.
                scope: (if $linked[$reference] then "required" else "excluded" end),
                licenses: licences
            }
            + if .own then {} else {
                hashes: [{
                    alg: "SHA-256",
                    content: ($checksums[$reference] // error("\($reference) has no checksum in Cargo.lock"))
                }],
                purl: "pkg:cargo/\(.name)@\(.version | @uri)"
            } end
            + if .repository == "" then {} else {externalReferences: [{type: "vcs", url: .repository}]} end))
        + [{
            type: "library",
            "bom-ref": "std@\($compiler)",
            name: "std",
            version: $compiler,
            description: "Rust's standard library, as it comes with the compiler",
            scope: "required",
            licenses: [{expression: "MIT OR Apache-2.0"}]
        }]),
    dependencies: ($tree | needs | to_entries | map({ref: .key, dependsOn: (.value | unique)}))
}
