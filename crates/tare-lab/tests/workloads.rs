//! The scripts of `workloads/` on a real server, at a scale far below what studies use.

use std::path::PathBuf;
use std::process::{Command, Output};

use mysql::prelude::Queryable;
use tare_lab::interrupt::Interrupt;
use tare_lab::server::{Launch, LaunchedServer};
use tare_lab::workload;
use tare_server::datadir::{self, Account, Scratch};
use tare_server::installation::Installation;

const WAREHOUSES: &str = "--warehouses=2";
/// A hundredth of the specification's size.
const SMALL: &str = "--scale=0.01";

/// A server with an empty schema, and our scripts.
struct Bed {
    server: LaunchedServer,
    // Last: removed after the server is gone.
    scratch: Scratch,
}

impl Bed {
    fn new() -> Bed {
        let installation = Installation::find(None).expect("a server is installed");
        let account = Account::of_servers().expect("an account");
        let scratch = Scratch::new(&account).expect("a folder");
        let data = scratch.path().join("data");
        datadir::create(&installation, &account, scratch.path(), &data, &[]).expect("a data directory");
        let launch = Launch::new(&data, &scratch).options(["--innodb-flush-log-at-trx-commit=0"]);
        let server = launch.start(&installation, &account, &Interrupt::default()).expect("a server");
        server.execute("CREATE DATABASE sbtest").expect("a schema");
        workload::install(scratch.path()).expect("scripts");
        Bed { server, scratch }
    }

    fn sysbench(&self, script: &str, arguments: &[&str]) -> Output {
        // A script that hangs must not hang whoever runs the tests.
        let mut command = Command::new("timeout");
        command.args(["120", "sysbench"]);
        command.arg(self.scratch.path().join(script).with_extension("lua"));
        command.args(["--db-driver=mysql", "--mysql-user=root", "--mysql-db=sbtest"]);
        command.arg(format!("--mysql-socket={}", self.server.socket().display()));
        command.args(arguments).output().expect("sysbench runs")
    }

    fn drive(&self, script: &str, arguments: &[&str]) -> String {
        let output = self.sysbench(script, arguments);
        let said = said(&output);
        assert!(output.status.success(), "{script} {arguments:?}: {}\n{said}", output.status);
        said
    }

    fn query<T: mysql::prelude::FromRow>(&self, sql: &str) -> Vec<T> {
        let mut connection = self.server.connect().expect("a connection");
        connection.query_drop("USE sbtest").expect("the schema");
        connection.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    fn count(&self, sql: &str) -> u64 {
        self.query::<u64>(sql)[0]
    }

    fn change(&self, sql: &str) {
        self.query::<u8>(sql);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

fn transactions(report: &str) -> u64 {
    let line = report.lines().find_map(|l| l.trim().strip_prefix("transactions:"));
    let count = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    count.unwrap_or_else(|| panic!("no transactions in {report}"))
}

#[test]
fn tpcc_keeps_its_consistency_conditions() {
    let bed = Bed::new();
    let loaded = bed.drive("tpcc", &[WAREHOUSES, SMALL, "--threads=3", "prepare"]);
    assert!(loaded.contains("loaded: 100%"), "{loaded}");
    for (table, rows) in
        [("warehouse", 2), ("district", 20), ("customer", 600), ("item", 1000), ("stock", 2000)]
    {
        assert_eq!(bed.count(&format!("SELECT COUNT(*) FROM {table}")), rows, "{table}");
    }
    assert_eq!(bed.count("SELECT COUNT(*) FROM new_order"), 2 * 10 * 9);
    // Every district has the first and the last of the names; a tenth of customers and items are special (six
    // standard deviations are allowed).
    for name in ["BARBARBAR", "BARBAREING"] {
        let districts =
            format!("SELECT COUNT(DISTINCT c_w_id, c_d_id) FROM customer WHERE c_last = '{name}'");
        assert_eq!(bed.count(&districts), 20, "{name}");
    }
    let bad = bed.count("SELECT COUNT(*) FROM customer WHERE c_credit = 'BC'");
    assert!((16..104).contains(&bad), "{bad} of 600 customers have bad credit");
    let original = bed.count("SELECT COUNT(*) FROM item WHERE i_data LIKE '%ORIGINAL%'");
    assert!((43..157).contains(&original), "{original} of 1000 items are original");
    let odd = "SELECT COUNT(*) FROM customer WHERE c_state NOT RLIKE '^[A-Z]{2}$' OR c_zip NOT RLIKE '^[0-9]{4}11111$' \
               OR CHAR_LENGTH(c_data) NOT BETWEEN 300 AND 500 OR c_phone NOT RLIKE '^[0-9]{16}$'";
    assert_eq!(bed.count(odd), 0, "customers to the specification");
    bed.drive("tpcc", &[WAREHOUSES, SMALL, "check"]);

    let report = bed.drive("tpcc", &[WAREHOUSES, SMALL, "--threads=4", "--events=3000", "--time=60", "run"]);
    assert_eq!(transactions(&report), 3000);
    let figures = workload::find("tpcc").expect("tpcc").figures(&report, 1.0);
    assert!(figures["notpm"] > 0.0, "{report}");
    // 45% of 3000, give or take six standard deviations; a part of 1% of them was rolled back.
    let placed = bed.count("SELECT SUM(d_next_o_id - 1 - 30) FROM district");
    assert!((1160..1540).contains(&placed), "{placed} orders");
    let remote = bed.count("SELECT COUNT(*) FROM history WHERE h_w_id <> h_c_w_id");
    assert!(remote > 0, "no payment for another warehouse");
    // An order that waits for delivery, where one is damaged below: now and then all of a district have been
    // delivered.
    while bed.count("SELECT COUNT(*) FROM new_order WHERE no_w_id = 1 AND no_d_id = 5") == 0 {
        bed.drive("tpcc", &[WAREHOUSES, SMALL, "--threads=1", "--events=10", "--time=60", "run"]);
    }
    let holds = bed.drive("tpcc", &[WAREHOUSES, SMALL, "check"]);
    assert_eq!(holds.matches(" holds: ").count(), 12, "{holds}");

    // Every condition fails, and says where, when a row it is about is damaged.
    let damages: [(&[u32], &str, &str); 8] = [
        (&[1, 8], "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2", "in warehouse 2"),
        (
            &[2],
            "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 4",
            "in district 4 of warehouse 1",
        ),
        (
            &[3, 5, 11],
            "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (1, 5, 1)",
            "in district 5 of warehouse 1",
        ),
        (
            &[4, 6],
            "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 2 AND o_d_id = 6 AND o_id = 2",
            "in district 6 of warehouse 2",
        ),
        (
            &[5, 7],
            "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 7 AND o_id = 1",
            "in district 7 of warehouse 1",
        ),
        (&[1, 9], "UPDATE district SET d_ytd = d_ytd - 1 WHERE d_w_id = 1 AND d_id = 8", "warehouse 1"),
        (
            &[10, 12],
            "UPDATE customer SET c_balance = c_balance + 0.01 WHERE c_w_id = 1 AND c_d_id = 9 AND c_id = 3",
            "in district 9 of warehouse 1",
        ),
        (
            &[11],
            "UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = 2 AND c_d_id = 10 AND c_id = 3",
            "in district 10 of warehouse 2",
        ),
    ];
    bed.change("CREATE TABLE sound AS SELECT 1");
    for (conditions, damage, place) in damages {
        let table = damage
            .split_whitespace()
            .find(|w| ["warehouse", "district", "customer", "orders", "new_order"].contains(w));
        let table = table.expect("a table");
        bed.change("SET GLOBAL foreign_key_checks = 0");
        bed.change(&format!("CREATE OR REPLACE TABLE sound AS SELECT * FROM {table}"));
        bed.change(damage);
        let output = bed.sysbench("tpcc", &[WAREHOUSES, SMALL, "check"]);
        let said = said(&output);
        assert!(!output.status.success(), "{damage}: not seen\n{said}");
        assert_eq!(broken(&said), conditions, "{damage}\n{said}");
        assert!(said.contains(place), "{damage}: {place} is not named\n{said}");
        bed.change(&format!("DELETE FROM {table}"));
        bed.change(&format!("INSERT INTO {table} SELECT * FROM sound"));
    }
    bed.drive("tpcc", &[WAREHOUSES, SMALL, "check"]);

    let wrong = bed.sysbench("tpcc", &[WAREHOUSES, "--scale=2", "--threads=2", "prepare"]);
    assert!(!wrong.status.success() && said(&wrong).contains("at most 1"), "{}", said(&wrong));
    bed.drive("tpcc", &["cleanup"]);
    assert_eq!(bed.query::<String>("SHOW TABLES"), ["sound"]);
}

/// Numbers of the conditions said not to hold.
fn broken(said: &str) -> Vec<u32> {
    let lines = said.lines().filter(|l| l.contains("does not hold"));
    let mut numbers: Vec<u32> =
        lines.map(|l| l.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")).collect();
    numbers.dedup();
    numbers
}

/// Who sits at a terminal sends nothing meanwhile, and that is no latency.
#[test]
fn terminals_wait_and_their_waits_are_no_latency() {
    let bed = Bed::new();
    bed.drive("tpcc", &[WAREHOUSES, SMALL, "--threads=3", "prepare"]);
    let report =
        bed.drive("tpcc", &[WAREHOUSES, SMALL, "--threads=4", "--terminals=0.05", "--time=3", "run"]);
    let figure = |name: &str| -> f64 {
        let line = report.lines().find_map(|l| l.trim().strip_prefix(name)).expect("a figure");
        line.trim().trim_end_matches('s').parse().expect("a number")
    };
    let (all, seconds) = (transactions(&report), figure("total time:"));
    // Keying in takes the shortest 0.1 s, and each of four terminals does one thing at a time: its waits and
    // what is counted as latency fit into the time there was.
    #[allow(clippy::cast_precision_loss)] // few
    let waited = all as f64 * 0.1;
    assert!(all > 0 && waited + figure("sum:") / 1000.0 <= 4.0 * seconds + 0.01, "{report}");
    let wrong = bed.sysbench("tpcc", &[WAREHOUSES, SMALL, "--terminals=often", "--time=1", "run"]);
    assert!(said(&wrong).contains("--terminals is often"), "{}", said(&wrong));
    bed.drive("tpcc", &[WAREHOUSES, SMALL, "check"]);
}

#[test]
fn dbstress_and_the_loop_run() {
    let bed = Bed::new();
    let size = ["--objects=2500", "--threads=2"];
    let with = |more: &[&'static str]| [&size[..], more].concat();
    bed.drive("dbstress", &with(&["prepare"]));
    let histories =
        "SELECT COUNT(*) FROM (SELECT 1 FROM history GROUP BY ref_object HAVING COUNT(*) = 20) AS h";
    assert_eq!(bed.count(histories), 2500);
    let lost = "SELECT COUNT(*) FROM object LEFT JOIN section ON section.ref = ref_section LEFT JOIN zone \
                ON zone.ref = ref_zone LEFT JOIN history ON ref_object = object.ref LEFT JOIN stat ON stat.ref = ref_stat \
                WHERE zone.ref IS NULL OR stat.ref IS NULL";
    assert_eq!(bed.count(lost), 0, "references that lead nowhere");

    let queries = |report: &str| {
        let line = report.lines().find_map(|l| l.trim().strip_prefix("queries:")).expect("queries");
        line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
    };
    for (scenario, statements) in [("ro", 2), ("rw", 7), ("sel1", 1), ("sel2", 1), ("write", 5)] {
        for prepared in ["auto", "disable"] {
            let options = [format!("--scenario={scenario}"), format!("--db-ps-mode={prepared}")];
            let options = [&size[..], &[&options[0], &options[1], "--events=200", "run"]].concat();
            let report = bed.drive("dbstress", &options);
            assert_eq!((transactions(&report), queries(&report)), (200, 200 * statements), "{report}");
        }
    }
    assert_eq!(bed.count(histories), 2500, "a write keeps the size of the data");

    let wrong = bed.sysbench("dbstress", &["--scenario=x", "run"]);
    assert!(said(&wrong).contains("may be: ro, rw"), "{}", said(&wrong));

    bed.drive("procedure_loop", &["prepare"]);
    let report = bed.drive("procedure_loop", &["--threads=2", "--events=20", "--loops=500", "run"]);
    assert_eq!(transactions(&report), 20);
    bed.drive("procedure_loop", &["cleanup"]);
    bed.drive("dbstress", &["cleanup"]);
    assert_eq!(bed.query::<String>("SHOW TABLES"), Vec::<String>::new());
}

#[test]
fn a_prepare_that_fails_ends_with_an_error() {
    let bed = Bed::new();
    bed.change("CREATE TABLE item (i_id INT)");
    bed.change("CREATE TABLE history (horder INT)");
    for (script, options) in [
        ("tpcc", [SMALL, "--threads=2", "prepare"]),
        ("dbstress", ["--objects=10", "--threads=2", "prepare"]),
    ] {
        let output = bed.sysbench(script, &options);
        assert!(!output.status.success(), "{script}: {}", said(&output));
    }
}

#[test]
fn the_scripts_are_those_of_the_folder() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads"));
    let mut there: Vec<String> = std::fs::read_dir(folder)
        .expect("workloads")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    there.sort();
    let mut known: Vec<String> = workload::WORKLOADS
        .iter()
        .filter_map(|w| match w.script {
            workload::SysbenchScript::Own(file, _) => Some(file.to_owned()),
            workload::SysbenchScript::Stock(_) | workload::SysbenchScript::Recorded => None,
        })
        .collect();
    // Drives the others at a rate.
    known.push("paced.lua".to_owned());
    known.sort();
    known.dedup();
    assert_eq!(there, known, "in workloads/, and in WORKLOADS");
}
