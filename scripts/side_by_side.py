#!/usr/bin/env python3
"""Runs test programs side by side: scripts/side_by_side.py [ARGUMENTS OF cargo test] [NAME] [-- ARGUMENTS OF THE PROGRAMS].

Builds what `cargo test` would run, and runs some of the programs at a time, because most of them wait for servers. Prints
each one's output whole, as Cargo does, once the program has ended. A program whose source has a line `//! ALONE: REASON`
runs afterwards with nothing beside it: one that measures by the clock, or that loads the whole machine.

A program fails that exits with another status than 0, is killed, cannot be started, or takes too long. Programs that took
long the last time, by a file in target/, start first; unknown ones before those, the ones with servers ahead of the others,
and among these those with more to read. At the end a table says which programs took longest, and how much of a processor.

If no more than three tests have failed, each is repeated once at the end, with nothing beside it. One that passes then has
wavered: a line says so, its first output stays, and it does not make the run fail. It is a fault of the test or of what it
tests, and has to be looked at, but not one of the change that is being tested.

Three run at a time, and up to eight as long as a processor idles. TARE_TEST_PROGRAMS says how many instead,
TARE_TEST_SECONDS how long each may take (1200). TARE_TEST_BESIDE is a command that runs beside the programs, on one
processor, before those that run alone: `make check`.
"""

import collections
import contextlib
import functools
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

# How many run at a time: the first number in any case, up to the second as long as a processor idles.
AT_A_TIME = (3, 8)
if "TARE_TEST_PROGRAMS" in os.environ:
    AT_A_TIME = (int(os.environ["TARE_TEST_PROGRAMS"]),) * 2
# How long the processors are watched before a further program starts, in seconds, and how much of one has to idle meanwhile.
WATCHED = 2
IDLING = 0.6
SECONDS = float(os.environ.get("TARE_TEST_SECONDS", "1200"))
# With one of these, Cargo leaves the documentation's tests out.
CHOOSING = ["--lib", "--bin", "--bins", "--test", "--tests", "--example", "--examples", "--bench", "--benches", "--all-targets"]
# Options whose value is the next argument.
VALUED = ["-p", "--package", "--exclude", "--bin", "--example", "--test", "--bench", "-F", "--features", "-j", "--jobs"]
VALUED += ["--profile", "--target", "--target-dir", "--manifest-path", "--config", "--color", "-Z"]
ALONE = re.compile(r"^//! ALONE: ", re.MULTILINE)
# How many programs the table of the slowest has.
LISTED = 20
# How many failed tests of a run are repeated; if there are more, none is.
REPEATED = 3
FAILED = "test failed"
SERVERS = re.compile(r"\bserver\b", re.IGNORECASE)


@dataclass
class Program:
    """A test program, or the tests of the documentation."""

    name: str
    package: str
    # What Cargo takes to run it again.
    choice: str
    command: list
    folder: Path
    environment: dict
    source: str


def has(arguments, *options):
    """Returns whether one of the options is among the arguments, its value joined to it or not."""
    joined = tuple(option + "=" if option.startswith("--") else option for option in options)
    return any(it in options or it.startswith(joined) for it in arguments)


def divided(given):
    """Divides what is given into arguments of `cargo test` and of the programs: a part of tests' names, what follows `--`."""
    end = given.index("--") if "--" in given else len(given)
    arguments, names = [], []
    for it in given[:end]:
        is_value = it.startswith("-") or (arguments and arguments[-1] in VALUED)
        (arguments if is_value else names).append(it)
    return arguments, [*names, *given[end + 1 :], "--show-output"]


def cargo(*arguments):
    return [os.environ.get("CARGO", "cargo"), *arguments]


def printed(command):
    """Returns what a command of Cargo's prints; ends with its status if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout


def packages():
    """Returns what Cargo tells about the workspace: its packages by their id, and the folder for what is built."""
    told = json.loads(printed(cargo("metadata", "--locked", "--no-deps", "--format-version=1")))
    return {it["id"]: it for it in told["packages"]}, Path(told["target_directory"])


def environment(package):
    """Returns the variables that Cargo sets for a package's programs."""
    version = re.split(r"[.+-]", package["version"]) + ["", ""]
    told = {
        "CARGO_MANIFEST_DIR": str(Path(package["manifest_path"]).parent),
        "CARGO_MANIFEST_PATH": package["manifest_path"],
        "CARGO_PKG_NAME": package["name"],
        "CARGO_PKG_VERSION": package["version"],
        "CARGO_PKG_VERSION_MAJOR": version[0],
        "CARGO_PKG_VERSION_MINOR": version[1],
        "CARGO_PKG_VERSION_PATCH": version[2],
        "CARGO_PKG_RUST_VERSION": package.get("rust_version") or "",
    }
    # What runs beside them does so once, and not beside what they run in turn.
    inherited = {name: value for name, value in os.environ.items() if name != "TARE_TEST_BESIDE"}
    return {**inherited, "CARGO": cargo()[0], "RUSTUP_TOOLCHAIN": toolchain(), **told}


@functools.cache
def toolchain():
    """Returns the toolchain's folder. Below Cargo, rustup tells programs which one it has chosen; a Cargo that a program
    runs by its path would otherwise have rustup choose anew, and perhaps update it meanwhile."""
    return os.environ.get("RUSTUP_TOOLCHAIN") or printed([os.environ.get("RUSTC", "rustc"), "--print=sysroot"]).strip()


def source(path):
    """Returns the text of a test program: its file, and for one of several modules the files beside it."""
    files = path.parent.glob("**/*.rs") if path.name == "main.rs" and path.parent.parent.name == "tests" else [path]
    return "".join(it.read_text() for it in sorted(files))


def built(arguments, passed, known):
    """Builds the test programs and returns them in Cargo's order."""
    programs = []
    for line in printed(cargo("test", *arguments, "--no-run", "--message-format=json-render-diagnostics")).splitlines():
        made = json.loads(line) if line.startswith("{") else {}
        if made.get("reason") != "compiler-artifact" or not made["profile"]["test"] or not made["executable"]:
            continue
        package, target = known[made["package_id"]], made["target"]
        folder, path, kind = Path(package["manifest_path"]).parent, Path(target["src_path"]), target["kind"][0]
        name = str(path.relative_to(folder))
        choice = "--lib" if kind not in ("bin", "example", "test", "bench") else f"--{kind} {target['name']}"
        programs.append(
            Program(
                name if kind in ("test", "bench") else "unittests " + name,
                package["name"],
                f"-p {package['name']} {choice}",
                [made["executable"], *passed],
                folder,
                environment(package),
                source(path),
            )
        )
    return sorted(programs, key=lambda it: (it.package, it.choice))


def documentation(arguments, passed, known, programs):
    """Returns the tests of the documentation, if Cargo would run them."""
    if has(arguments, *CHOOSING):
        return []
    documented = {it["name"] for it in known.values() if any(target["doctest"] for target in it["targets"])}
    if "--doc" not in arguments and documented.isdisjoint(it.package for it in programs):
        return []
    command = cargo("test", *arguments, *([] if "--doc" in arguments else ["--doc"]), "--no-fail-fast", "--", *passed)
    return [Program("", "", "--doc", command, Path.cwd(), dict(os.environ), "")]


def failing(output):
    """Returns the names of the tests that failed, by what a program printed at its end."""
    lists = re.findall(r"^failures:\n((?:    \S.*\n)+)\n?test result: ", output, re.MULTILINE)
    return [name.strip() for name in lists[-1].splitlines()] if lists else []


def ended(status, late):
    """Returns how a program failed that ended with this status, or None."""
    if late:
        return f"test program was killed: it had not ended after {SECONDS:.0f} s (TARE_TEST_SECONDS)"
    if status < 0:
        return f"test program was killed by {signal.Signals(-status).name}"
    return FAILED if status else None


def idled():
    """Returns how long this machine's processors have idled, added up, in seconds; 0 where nobody says so."""
    try:
        words = Path("/proc/stat").read_text().split()
    except OSError:
        return 0.0
    return int(words[4]) / os.sysconf("SC_CLK_TCK")


class Runner:
    """Runs programs, prints what they printed, and keeps which failed."""

    def __init__(self, took):
        self.took = took
        # Each one's seconds, and those of processors, of this run.
        self.used = {}
        # Programs that failed, with the names of their tests that did, if they say so.
        self.failed = []
        self.printing = threading.Lock()
        self.running = set()

    def run(self, program):
        """Runs a program to its end and prints its output."""
        begun = time.monotonic()
        failure, processor, text = self.outcome(program)
        seconds = time.monotonic() - begun
        self.took[program.choice] = round(seconds, 1)
        self.used[program.choice] = seconds, processor
        heading = f"     Running {program.name} ({program.command[0]})\n" if program.name else ""
        with self.printing:
            sys.stdout.buffer.write(heading.encode() + text)
            if text and not text.endswith(b"\n"):
                sys.stdout.buffer.write(b"\n")
            if failure:
                is_known = failure == FAILED and program.choice != "--doc"
                names = failing(text.decode(errors="replace")) if is_known else []
                self.failed.append((program, names))
                print(f"error: {failure}, to rerun {'pass' if program.choice.startswith('-') else 'call'} `{program.choice}`")
            sys.stdout.flush()

    def outcome(self, program):
        """Runs a program to its end; returns what `ending` returns, and what it printed."""
        with tempfile.TemporaryFile() as output:
            failure, processor = self.ending(program, output)
            output.seek(0)
            return failure, processor, output.read()

    def ending(self, program, output):
        """Runs a program to its end; returns how it failed, or None, and the processor's seconds that it and what it has
        started and waited for took."""
        try:
            # A group of its own: what a program leaves running ends with it when it hangs.
            child = subprocess.Popen(
                program.command, cwd=program.folder, env=program.environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, process_group=0,
            )
        except OSError as error:
            return f"test program cannot be started: {error}", 0.0
        self.running.add(child)
        late = threading.Event()

        def kill():
            late.set()
            os.killpg(child.pid, signal.SIGKILL)

        limit = threading.Timer(SECONDS, kill)
        limit.start()
        # Not yet reaped, so that its number is nobody else's when the limit kills its group.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        limit.cancel()
        limit.join()
        self.running.discard(child)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        return ended(child.returncode, late.is_set()), usage.ru_utime + usage.ru_stime

    def all(self, programs, least, most):
        """Runs programs in their order: as many as `least` at a time, and more, up to `most`, while a processor idles."""
        waiting = collections.deque(programs)
        ended = queue.SimpleQueue()
        running = 0

        def work(program):
            try:
                self.run(program)
            except BaseException:
                self.failed.append((program, []))
                raise
            finally:
                ended.put(program)

        allowed = least
        while waiting or running:
            while waiting and running < allowed:
                threading.Thread(target=work, args=[waiting.popleft()], daemon=True).start()
                running += 1
            allowed = least
            before = idled()
            try:
                ended.get(timeout=WATCHED if waiting and running < most else None)
                running -= 1
            except queue.Empty:
                if idled() - before > IDLING * WATCHED:
                    allowed = running + 1

    def repeat(self):
        """Repeats the tests that failed, if they are few and all known by name. Forgets programs whose tests now pass."""
        if not all(names for _, names in self.failed) or sum(len(names) for _, names in self.failed) > REPEATED:
            return
        self.failed = [(program, left) for program, names in self.failed if (left := self.still_failing(program, names))]

    def still_failing(self, program, names):
        """Repeats tests of a program; returns those that fail again."""
        left = []
        arguments = [it for it in program.command[1:] if it.startswith("-")]
        for name in names:
            again = replace(program, command=[program.command[0], name, "--exact", *arguments])
            failure, _, output = self.outcome(again)
            text = output.decode(errors="replace")
            if failure is None and "test result: ok. 1 passed" in text:
                print(f"wavered: {program.name}: {name} (failed beside others, passed when it was repeated alone)")
            else:
                # Not to be taken for a program's own sums.
                print(f"{program.name}: {name} failed again:", *("    " + line for line in text.splitlines()), sep="\n")
                left.append(name)
            sys.stdout.flush()
        return left

    @contextlib.contextmanager
    def beside(self, command):
        """Runs a command beside what is run meanwhile."""
        words = command.split()
        if not words:
            yield
            return
        # It is not to take the processors from those that wait for servers.
        program = Program("", "", command, words, Path.cwd(), {**os.environ, "CARGO_BUILD_JOBS": "1"}, "")
        thread = threading.Thread(target=self.run, args=[program], daemon=True)
        thread.start()
        yield
        thread.join()

    def stop(self, number, _frame):
        """Ends what runs when somebody ends this program."""
        for child in list(self.running):
            os.killpg(child.pid, signal.SIGKILL)
        os._exit(128 + number)


def in_order(programs, took):
    """Sorts programs by what they took the last time, longest first, behind those that nothing is known about."""

    def place(it):
        return -took.get(it.choice, float("inf")), not SERVERS.search(it.source), -len(it.source)

    return sorted(programs, key=place)


def slowest(used):
    """Returns lines about the programs that took longest."""
    if len(used) < 2:
        return []
    elapsed, processor = (sum(it) for it in zip(*used.values()))
    longest = sorted(used.items(), key=lambda it: -it[1][0])[:LISTED]
    lines = [f"{choice:<50} {seconds:8.1f} s {cpu:8.1f} s" for choice, (seconds, cpu) in longest]
    return [f"{'the slowest programs':<50}   elapsed  processor", *lines, f"{'all':<50} {elapsed:8.1f} s {processor:8.1f} s"]


def main():
    arguments, passed = divided(sys.argv[1:])
    chosen = [] if has(arguments, "-p", "--package") else ["--workspace"]
    arguments = ["--locked", *chosen, *arguments]
    known, target = packages()
    programs = [] if "--doc" in arguments else built(arguments, passed, known)

    times = target / "test-seconds.json"
    took = json.loads(times.read_text()) if times.is_file() else {}
    runner = Runner(took)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, runner.stop)
    alone = [it for it in programs if ALONE.search(it.source)]
    others = in_order([it for it in programs if it not in alone], took)
    with runner.beside(os.environ.get("TARE_TEST_BESIDE", "")):
        runner.all([*others, *documentation(arguments, passed, known, programs)], *AT_A_TIME)
    runner.all(alone, 1, 1)
    runner.repeat()
    print(*slowest(runner.used), sep="\n")
    times.write_text(json.dumps(took, indent=1, sort_keys=True) + "\n")

    if runner.failed:
        print(f"error: {len(runner.failed)} targets failed:", *(f"    `{it.choice}`" for it, _ in runner.failed), sep="\n")
        sys.exit(101)


if __name__ == "__main__":
    main()
