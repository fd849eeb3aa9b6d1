#!/usr/bin/env python3
"""Writes crates/tare-mariadb/src/host/errors.txt: numbers and names of MariaDB's errors.

    scripts/errors/generate.py SERIES=SOURCE SERIES=SOURCE ... > crates/tare-mariadb/src/host/errors.txt

Series come from the oldest to the newest. A SOURCE is the header mysqld_ername.h of a server's development package
(Debian's libmariadbd-dev), or, where there is none, a server's binary: of the names the headers know for a number, a binary
tells which it has. Without a header of its own a series has the numbers of the next one, as far as their names are in it.

A line is a number and a name; one whose name not all series have says of which it is. Numbers without an error
(ER_UNUSED_1, ER_MYSQL_3061 …) are left out.
"""
import re
import sys


def header(text):
    names = {}
    for name, number in re.findall(r'^\{ "(\w+)", (\d+),', text, re.M):
        if not re.fullmatch(r"ER_(UNUSED|MYSQL)_\d+", name):
            names[int(number)] = name
    return names


def main():
    series, headers, binaries = [], {}, {}
    for argument in sys.argv[1:]:
        name, source = argument.split("=", 1)
        content = open(source, "rb").read()
        series.append(name)
        if content.startswith(b"\x7fELF"):
            # A name may be the end of a longer text.
            binaries[name] = set(re.findall(rb"[A-Z0-9_]+(?=\0)", content))
        else:
            headers[name] = header(content.decode("utf-8", "replace"))
    if not series or series[0] not in headers or series[-1] not in headers:
        sys.exit(__doc__)
    for name in series:
        if name in binaries:
            has = lambda it: any(text.endswith(it.encode()) for text in binaries[name])
            earlier = headers[series[series.index(name) - 1]]
            later = headers[next(it for it in series[series.index(name):] if it in headers)]
            of = {}
            for number in sorted(set(earlier) | set(later)):
                both = [names[number] for names in (later, earlier) if number in names]
                found = [it for it in both if len(both) == 2 and both[0] == both[1] or has(it)]
                if found:
                    of[number] = found[0]
            headers[name] = of
    for number in sorted(set().union(*headers.values())):
        of = [headers[name].get(number) for name in series]
        for error in dict.fromkeys(filter(None, of)):
            whose = [name for name, it in zip(series, of) if it == error]
            print(number, error, *([] if len(whose) == len(series) else [",".join(whose)]))


main()
