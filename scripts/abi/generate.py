#!/usr/bin/env python3
"""Generates crates/tare-mariadb/src/abi from the servers' own debug information and headers.

    scripts/abi/generate.py SERIES=SOURCE ...

SOURCE is a server's include folder (it holds mysql/psi/psi.h) or a mariadbd with debug information:

    scripts/abi/generate.py 10.11=/usr/include/mariadb/server \\
        10.6=.hosts/10.6/root/usr/include/mariadb/server \\
        11.4=.hosts/11.4.5/bin/mariadbd 11.8=.hosts/11.8/root/usr/include/mariadb/server

The first series must be an include folder: the names of the arguments come from its psi.h.
Both kinds are read the same way, through gdb: headers are compiled into a probe first. Types that a
series shares with the first one are checked to be identical, slot by slot; the script stops if not.
Series with the same vtable share a module, `vtable_N.rs` (N slots), which lists them.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ABI = HERE.parent.parent / "crates/tare-mariadb/src/abi"

SCALARS = {
    (1, True): "c_char", (1, False): "c_uchar", (2, True): "c_short", (4, True): "c_int",
    (4, False): "c_uint", (8, True): "c_long", (8, False): "c_ulong",
}
LIBC = {"sockaddr", "pthread_t", "pthread_attr_t"}
OPAQUE_NAMES = {
    "TABLE_SHARE": "ServerTableShare", "MDL_key": "MdlKey", "sql_digest_storage": "DigestStorage",
    "opaque_THD": "Thd", "THD": "Thd",
}
FLAGS = [
    "PSI_FLAG_GLOBAL", "PSI_FLAG_MUTABLE", "PSI_FLAG_THREAD", "PSI_FLAG_STAGE_PROGRESS",
    "PSI_RWLOCK_FLAG_SX", "PSI_FLAG_TRANSFER", "PSI_FLAG_VOLATILITY_SESSION", "PSI_FLAG_THREAD_SYSTEM",
]


def load(source, work):
    """The JSON description of a series' interface."""
    source = Path(source).resolve()
    binary = source
    if source.is_dir():
        binary = work / "probe.o"
        subprocess.run(
            ["gcc", "-g", "-c", "-fno-eliminate-unused-debug-types", "-I", source, HERE / "probe.c",
             "-o", binary], check=True)
    out = work / "abi.json"
    subprocess.run(
        ["gdb", "-batch", "-ex", f"python OUT={str(out)!r}", "-x", HERE / "dump.py", binary], check=True)
    text = out.read_text().replace('"opaque_THD"', '"THD"')
    text = text.replace('"set_thread_THD"', '"set_thread_thd"')
    return json.loads(text)


def camel(name):
    """`PSI_mutex_locker_state_v1` → `MutexLockerState`."""
    if name in OPAQUE_NAMES:
        return OPAQUE_NAMES[name]
    name = re.sub(r"^PSI_|_v1$", "", name)
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def rust(type_, opaques, names=None):
    """A type in Rust. Names of opaque types met are added to `opaques`."""
    kind = type_["kind"]
    if kind == "scalar":
        if type_["name"] == "double":
            return "f64"
        if type_["name"] == "long long unsigned int" or type_["name"] == "unsigned long long":
            return "c_ulonglong"
        return SCALARS[(type_["size"], type_["signed"])]
    if kind == "enum":
        # Never a Rust enum: a value the header does not list must not be undefined behaviour.
        return "c_uint"
    if kind == "void":
        return "c_void"
    if kind == "array":
        return f"[{rust(type_['of'], opaques)}; {type_['length']}]"
    if kind == "opaque":
        if type_["name"] in LIBC:
            return f"libc::{type_['name']}"
        opaques.add(type_["name"])
        return camel(type_["name"])
    assert kind == "pointer", type_
    target = type_["to"]
    if target["kind"] == "function":
        return function(target, opaques, names)
    return f"*{'const' if type_['const'] else 'mut'} {rust(target, opaques)}"


def function(type_, opaques, names=None):
    """A function pointer in Rust."""
    takes = [rust(t, opaques) for t in type_["takes"]]
    if names:
        takes = [f"{name}: {t}" for name, t in zip(names, takes, strict=True)]
    returns = "" if type_["returns"]["kind"] == "void" else f" -> {rust(type_['returns'], opaques)}"
    return f"unsafe extern \"C\" fn({', '.join(takes)}){returns}"


def argument_names(include):
    """Slot type name → argument names, from psi.h and psi_memory.h."""
    names = {}
    for header in ("psi.h", "psi_memory.h"):
        text = (Path(include) / "mysql/psi" / header).read_text()
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        for match in re.finditer(r"typedef\s[^;{}]*?\(\*\s*(\w+_t)\)\s*\(((?:[^()]|\([^()]*\))*)\)\s*;", text):
            arguments = []
            for argument in split_arguments(match.group(2)):
                pointer = re.search(r"\(\*(\w+)\)", argument)
                word = pointer.group(1) if pointer else re.findall(r"\w+", argument)[-1]
                arguments.append(RESERVED.get(word, word))
            names[match.group(1)] = arguments
        if header == "psi.h":
            members = re.search(r"struct PSI_v1\s*\{(.*?)\n\};", text, re.S).group(1)
            slots = dict((slot, kind) for kind, slot in re.findall(r"(\w+_t)\s+(\w+)\s*;", members))
    return {slot.lower(): names.get(kind) for slot, kind in slots.items()}


RESERVED = {"ref": "reference", "type": "kind", "my_bool": "flag"}


def split_arguments(text):
    """Splits at commas outside parentheses; `void` and nothing mean no argument."""
    parts, depth, current = [], 0, ""
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    parts.append(current)
    return [p.strip() for p in parts if p.strip() and p.strip() != "void"]


HEADER = """//! {doc}
//!
//! Generated by `scripts/abi/generate.py` from {source}. Never edited by hand.

"""


def emit_types(base, slots, all_names, include):
    """`types.rs`: everything the series share."""
    opaques, body = set(), []
    for name in base["structs"]:
        body.append(emit_struct(name, base["structs"][name], opaques))
    table = ["/// Every slot of every supported series, by name; what an implementation fills.",
             "#[allow(missing_docs)]", "pub struct Slots {"]
    for slot, type_ in slots.items():
        body.append(f"/// Slot `{slot}`.\npub type {camel(slot)} = "
                    f"{function(type_['to'], opaques, all_names.get(slot))};\n")
        table.append(f"    pub {slot}: {camel(slot)},")
    table.append("}\n")
    opaques -= set(base["structs"])
    for name in sorted(opaques):
        body.append(f"/// The server's or the provider's own `{name}`, only ever seen through a pointer.\n"
                    f"#[repr(C)]\npub struct {camel(name)} {{\n    _private: [u8; 0],\n}}\n")
    for name, values in base["enums"].items():
        for value, number in values.items():
            body.append(f"/// Of `{name}`.\npub const {value.removeprefix('PSI_')}: c_uint = {number};")
    text = (Path(include) / "mysql/psi/psi_base.h").read_text()
    for flag in FLAGS:
        shift = re.search(rf"#define {flag} \(1 << (\d+)\)", text).group(1)
        body.append(f"/// `{flag}` of the registration structures.\n"
                    f"pub const {flag.removeprefix('PSI_')}: c_int = 1 << {shift};")
    head = HEADER.format(doc="The types of the PSI interface that all supported series share.",
                         source="the 10.11 headers, checked against every other series")
    uses = ("#![allow(missing_docs)] // the fields are the interface's own\n\n"
            "use std::ffi::{c_char, c_int, c_long, c_uchar, c_uint, c_ulong, c_ulonglong, c_void};\n"
            "use std::mem::{offset_of, size_of};\n\n")
    return head + uses + "\n".join(body) + "\n" + "\n".join(table)


def emit_struct(name, description, opaques):
    """A `#[repr(C)]` structure with its size and offset assertions."""
    rust_name = camel(name)
    lines = [f"/// `{name}`.", "#[repr(C)]", f"pub struct {rust_name} {{"]
    for field in description["fields"]:
        text = rust(field["type"], opaques)
        if text.startswith("unsafe extern"):
            text = f"Option<{text}>"  # the server may hand over a state that is all zero
        lines.append(f"    pub {field_name(field)}: {text},")
    lines += ["}", "const _: () = {", f"    assert!(size_of::<{rust_name}>() == {description['size']});"]
    for field in description["fields"]:
        lines.append(f"    assert!(offset_of!({rust_name}, {field_name(field)}) == {field['offset']});")
    return "\n".join(lines + ["};", ""])


def field_name(field):
    """Without the interface's `m_`."""
    return field["name"].removeprefix("m_")


def emit_layout(vtable, sources, slots_not_here):
    """`vtable_N.rs`: the vtable with N slots, of every series in `sources` (series → what it was read from)."""
    fields = vtable["fields"]
    servers = "MariaDB " + listed(sources)
    read = listed(f"the {series} {'headers' if Path(source).is_dir() else 'debug information'}"
                  for series, source in sources.items())
    lines = [HEADER.format(doc=f"The PSI vtable with {len(fields)} slots: {servers}.", source=read)]
    lines += ["use std::mem::{offset_of, size_of};", "", "use super::types::*;", "",
              "/// The series whose vtable was found to be this one.",
              f"pub const SERIES: [&str; {len(sources)}] = [" + ", ".join(f'"{s}"' for s in sources) + "];", "",
              f"/// `PSI_v1` of {servers}: what `get_interface(1)` returns.",
              "#[repr(C)]", "#[allow(missing_docs)] // the slots are the interface's own", "pub struct Vtable {"]
    for field in fields:
        lines.append(f"    pub {field['name']}: {camel(field['name'])},")
    lines += ["}", "", "const _: () = {", f"    assert!(size_of::<Vtable>() == {vtable['size']});"]
    for field in fields:
        lines.append(f"    assert!(offset_of!(Vtable, {field['name']}) == {field['offset']});")
    lines += ["};", "", "/// The slots in order; slot `n` is at byte `8 * n`.",
              f"pub const SLOT_NAMES: [&str; {len(fields)}] = ["]
    lines += [f"    \"{field['name']}\"," for field in fields]
    lines += ["];", "", "impl Vtable {", "    /// Puts the slots in this layout's order."]
    if slots_not_here:
        lines.append("    ///")
        lines.append("    /// Not in this layout: " + ", ".join(f"`{s}`" for s in slots_not_here) + ".")
    lines += ["    pub const fn new(slots: &Slots) -> Vtable {", "        Vtable {"]
    lines += [f"            {f['name']}: slots.{f['name']}," for f in fields]
    return "\n".join(lines + ["        }", "    }", "}", ""])


def listed(words):
    """`a`, `a and b`, `a, b and c`."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def layouts(described):
    """Groups the series by their vtables: a list of (vtable, series), where all of a group have every slot alike."""
    groups = []
    for series, found in described.items():
        group = next((group for group in groups if group[0] == found["vtable"]), None)
        if group:
            group[1].append(series)
        else:
            groups.append((found["vtable"], [series]))
    numbers = [len(vtable["fields"]) for vtable, _ in groups]
    if len(set(numbers)) < len(numbers):
        sys.exit("two layouts have as many slots as each other: name their modules by something else")
    return groups


def check_same(series, found, base):
    """What is shared must be identical, or sharing it would be a lie."""
    for part in ("structs", "enums"):
        if found[part] != base[part]:
            sys.exit(f"{series}: {part} differ from the first series: give it types of its own")


def main():
    """Reads every series, checks what is shared, writes the modules."""
    sources = dict(argument.split("=", 1) for argument in sys.argv[1:])
    if not sources:
        sys.exit(__doc__)
    described, slots, names = {}, {}, {}
    with tempfile.TemporaryDirectory() as work:
        for series, source in sources.items():
            described[series] = load(source, Path(work))
    base = next(iter(described.values()))
    for series, found in described.items():
        check_same(series, found, base)
        if Path(sources[series]).is_dir():
            for slot, arguments in argument_names(sources[series]).items():
                names.setdefault(slot, arguments)
        for field in found["vtable"]["fields"]:
            if slots.setdefault(field["name"], field["type"]) != field["type"]:
                sys.exit(f"{series}: slot {field['name']} has another type")
    files = {"types.rs": emit_types(base, slots, names, next(iter(sources.values())))}
    for vtable, of in layouts(described):
        here = {field["name"] for field in vtable["fields"]}
        missing = [slot for slot in slots if slot not in here]
        files[f"vtable_{len(here)}.rs"] = emit_layout(vtable, {series: sources[series] for series in of}, missing)
    ABI.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (ABI / name).write_text(text)
        subprocess.run(["rustfmt", "--edition", "2024", "--config-path", HERE.parent.parent, ABI / name], check=True)


if __name__ == "__main__":
    main()
