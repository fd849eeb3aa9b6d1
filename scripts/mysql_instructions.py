#!/usr/bin/env python3
"""Counts the instructions of a transaction in MySQL, inside the server's do_command.

    scripts/mysql_instructions.py off|defaults|everything|sampled [LIBRARY]

Valgrind's callgrind counts the connection's thread; sysbench sends twice as many transactions the second time, and the
difference of both is what one takes. `sampled` needs the library of `make provider-mysql`. Needs valgrind, sysbench, the
client `mariadb`, and a server of `scripts/hosts.sh mysql`: 9.7.4, or the one that `TARE_MYSQL` names (8.4, 8, 9-ubuntu). Run
it as root. About 10 minutes on 2 cores.
"""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time

HOST = os.path.realpath(os.path.join(os.path.dirname(__file__), f"../.hosts/mysql-{os.environ.get('TARE_MYSQL', '9')}"))
CONSUMERS = (
    "stages-current stages-history stages-history-long statements-history-long transactions-history-long "
    "waits-current waits-history waits-history-long"
).split()
EVERYTHING = ["--performance-schema-instrument=%=ON"] + [
    f"--performance-schema-consumer-events-{name}=ON" for name in CONSUMERS
]
OPTIONS = {"off": ["--performance-schema=OFF"], "defaults": [], "everything": EVERYTHING, "sampled": EVERYTHING}
SETTINGS = "level=sampled; sample=1/64; slow-after=3600s"
LOADS = [
    ("point select, prepared", "oltp_point_select", "auto", 2000),
    ("point select, text", "oltp_point_select", "disable", 2000),
    ("oltp_read_only", "oltp_read_only", "auto", 200),
    ("oltp_read_write", "oltp_read_write", "auto", 200),
    ("a select that fails", "failing.lua", "disable", 1000),
]
FAILING = """
function thread_init() con = sysbench.sql.driver():connect() end
function event() pcall(con.query, con, "SELECT * FROM missing") end
"""


def loads(home, count):
    """Yields each load with the instructions of one of its transactions."""
    common = ["--mysql-user=root", f"--mysql-socket={home}/socket", "--mysql-db=work", "--mysql-ignore-errors=all"]
    tables = lambda test: [] if test == "failing.lua" else ["--tables=1", "--table-size=1000"]
    run = lambda test, *more: subprocess.run(
        ["sysbench", test, *common, *tables(test), *more], check=True, capture_output=True, cwd=home,
    )
    with open(f"{home}/failing.lua", "w") as script:
        script.write(FAILING)
    run("oltp_point_select", "prepare")
    for name, test, prepared, number in LOADS:
        send = lambda times: run(
            test, "--threads=1", "--time=0", f"--events={times}", f"--db-ps-mode={prepared}",
            "--rand-seed=7", "--rand-type=uniform", "run",
        )
        send(number)
        count()
        taken = []
        for times in (number, 2 * number):
            send(times)
            taken.append(count())
        yield name, (taken[1] - taken[0]) / number


def main(setting, library):
    home = tempfile.mkdtemp(prefix="instructions-")
    server = [f"{HOST}/root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "--library-path",
              f"{HOST}/root/usr/lib/x86_64-linux-gnu", f"{HOST}/root/usr/sbin/mysqld", "--no-defaults", f"--basedir={HOST}",
              f"--datadir={home}/data", "--user=root", "--secure-file-priv=", f"--log-error={home}/log"]
    subprocess.run([*server, "--initialize-insecure"], check=True)
    environment = dict(os.environ)
    if setting == "sampled":
        environment.update(LD_PRELOAD=os.path.realpath(library), TARE_OPTIONS=SETTINGS)
    callgrind = ["valgrind", "--tool=callgrind", "--demangle=no", "--toggle-collect=_Z10do_commandP3THD",
                 f"--callgrind-out-file={home}/counts"]
    process = subprocess.Popen(
        [*callgrind, *server, f"--socket={home}/socket", "--skip-networking", "--loose-skip-mysqlx",
         "--innodb-buffer-pool-size=64M", *OPTIONS[setting]],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    client = ["mariadb", "--skip-ssl", "-uroot", f"--socket={home}/socket", "-e"]
    seen = set()

    def count():
        time.sleep(1)
        subprocess.run(["callgrind_control", "-d", str(process.pid)], check=True, capture_output=True)
        time.sleep(1)
        new = set(glob.glob(f"{home}/counts.*")) - seen
        seen.update(new)
        totals = (line.split()[1] for name in new for line in open(name) if line.startswith("totals:"))
        return sum(map(int, totals))

    try:
        while subprocess.run([*client, "CREATE DATABASE work"], capture_output=True).returncode:
            if process.poll() is not None:
                sys.exit(f"the server has ended; see {home}/log")
            time.sleep(1)
        for name, instructions in loads(home, count):
            print(f"{setting:10} {name:24} {instructions:12,.0f}", flush=True)
    finally:
        subprocess.run([*client, "SHUTDOWN"], capture_output=True)
        process.wait()
    shutil.rmtree(home)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in OPTIONS:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "target/release/libtare_mysql.so")
