"""Runs inside gdb: writes the PSI interface of the loaded binary's debug information as JSON.

Usage: gdb -batch -ex 'python OUT="x.json"' -x dump.py BINARY
"""

import json

import gdb

# The structures the provider and the server share, besides the vtable.
STRUCTS = [
    "PSI_bootstrap", "PSI_stage_progress",
    "PSI_mutex_info_v1", "PSI_rwlock_info_v1", "PSI_cond_info_v1", "PSI_thread_info_v1",
    "PSI_file_info_v1", "PSI_stage_info_v1", "PSI_statement_info_v1", "PSI_socket_info_v1",
    "PSI_memory_info_v1",
    "PSI_idle_locker_state_v1", "PSI_mutex_locker_state_v1", "PSI_rwlock_locker_state_v1",
    "PSI_cond_locker_state_v1", "PSI_file_locker_state_v1", "PSI_table_locker_state",
    "PSI_metadata_locker_state_v1", "PSI_statement_locker_state_v1",
    "PSI_transaction_locker_state_v1", "PSI_socket_locker_state_v1", "PSI_sp_locker_state_v1",
]
ENUMS = [
    "PSI_table_io_operation", "PSI_mutex_operation", "PSI_rwlock_operation", "PSI_cond_operation",
    "PSI_file_operation", "PSI_table_lock_operation", "PSI_socket_state", "PSI_socket_operation",
]


def describe(type_):
    """A JSON description of a type, complete enough to compare two series."""
    type_ = type_.unqualified() if type_.code != gdb.TYPE_CODE_TYPEDEF else type_
    if type_.code == gdb.TYPE_CODE_TYPEDEF:
        if type_.name in ("pthread_t", "pthread_attr_t"):
            return {"kind": "opaque", "name": type_.name}
        return describe(type_.target())
    if type_.code == gdb.TYPE_CODE_PTR:
        target = type_.target()
        return {"kind": "pointer", "const": is_const(target), "to": describe(target)}
    if type_.code == gdb.TYPE_CODE_FUNC:
        return {
            "kind": "function",
            "returns": describe(type_.target()),
            "takes": [describe(field.type) for field in type_.fields()],
        }
    if type_.code == gdb.TYPE_CODE_ARRAY:
        low, high = type_.range()
        return {"kind": "array", "length": high - low + 1, "of": describe(type_.target())}
    if type_.code == gdb.TYPE_CODE_VOID:
        return {"kind": "void"}
    if type_.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return {"kind": "opaque", "name": type_.tag or type_.name}
    if type_.code == gdb.TYPE_CODE_ENUM:
        return {"kind": "enum", "name": type_.tag or type_.name, "size": type_.sizeof}
    return {"kind": "scalar", "name": type_.name, "size": type_.sizeof, "signed": type_.is_signed}


def is_const(type_):
    """Whether the type is const, looking through typedefs."""
    while True:
        if str(type_).startswith("const "):
            return True
        if type_.code != gdb.TYPE_CODE_TYPEDEF:
            return False
        type_ = type_.target()


def struct(name):
    """Size and fields of a structure."""
    type_ = gdb.lookup_type("struct " + name)
    return {
        "size": type_.sizeof,
        "fields": [
            {"name": f.name, "offset": f.bitpos // 8, "type": describe(f.type)} for f in type_.fields()
        ],
    }


RESULT = {
    "vtable": struct("PSI_v1"),
    "structs": {name: struct(name) for name in STRUCTS},
    "enums": {
        name: {f.name: f.enumval for f in gdb.lookup_type("enum " + name).fields()} for name in ENUMS
    },
}
with open(OUT, "w", encoding="utf-8") as out:  # noqa: F821 - OUT is set by the caller
    json.dump(RESULT, out)
