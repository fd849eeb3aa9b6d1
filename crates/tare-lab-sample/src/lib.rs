//! Results as a study would have left them: made by a seeded generator, with known costs and noise.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tare_lab::record::{
    Calls, Cell, CpuSource, Effort, End, FORMAT, Header, Instruments, Latency, Machine, Note, Others,
    Profile, Reason, Record, ServerFacts, SettingFacts, Slice,
};

/// Length of a slice, in seconds.
const SECONDS: u32 = 5;
/// Blocks of a cell.
const BLOCKS: u32 = 24;
/// Blocks before servers are started anew.
const BLOCKS_PER_START: u32 = 2;

/// A setting's name, what it means, and what it costs in CPU per transaction.
const SETTINGS: [(&str, &str, f64); 6] = [
    ("off", "no instrumentation (--performance-schema=OFF)", 0.0),
    ("off again", "the same once more", 0.0),
    ("tare, all", "tare, every instrument and consumer on, exact", 0.011),
    ("built-in, none", "the server's own Performance Schema, no instrument on", 0.009),
    ("built-in, default", "the server's own Performance Schema by default", 0.031),
    ("built-in, all", "the server's own Performance Schema, every instrument & consumer on <all>", 0.145),
];

/// A workload, CPU seconds of a transaction and statements in it.
const WORKLOADS: [(&str, f64, u64); 3] =
    [("oltp_read_only", 262e-6, 16), ("oltp_point_select", 9.4e-6, 1), ("tpcc", 1900e-6, 30)];
const USERS: [u32; 2] = [2, 64];

/// The setting beside which a sidecar scrapes the server every 2.5 seconds.
pub const ASKED: &str = "built-in, default";
const SCRAPE_SECONDS: f64 = 2.5;
/// Share of the transactions of a second that a scrape in it costs.
const SCRAPE_COSTS: f64 = 0.12;

/// Noise of a slice, and of a process for as long as it lives, as shares.
const NOISE: f64 = 0.004;
const PROCESS_NOISE: f64 = 0.0015;

/// The generator of a study.
struct Generator {
    random: fastrand::Rng,
    at: f64,
    records: Vec<Record>,
}

/// Returns what a setting costs, as a share of the base.
///
/// # Panics
///
/// If there is no such setting.
pub fn cost(setting: &str) -> f64 {
    SETTINGS.iter().find(|(name, ..)| *name == setting).expect("a setting").2
}

/// Returns the bytes that a setting holds more than the base, by its place.
pub fn memory(setting: usize) -> u64 {
    (if setting > 2 { 110 } else { setting as u64 * 10 }) << 20
}

/// Writes a study's results into a folder. The same seed gives the same results.
///
/// # Panics
///
/// If the folder cannot be written to.
pub fn write(folder: &Path, seed: u64) {
    let mut generator = Generator { random: fastrand::Rng::with_seed(seed), at: 0.0, records: vec![] };
    generator.study(seed);
    let lines = generator.records.iter().map(|r| serde_json::to_string(r).expect("JSON") + "\n");
    fs::write(folder.join("results.jsonl"), lines.collect::<String>()).expect("written");
    fs::create_dir_all(folder.join("profiles")).expect("a folder");
    for (name, plus) in [("off", 0), ("built-in-all", 140)] {
        let stacks = format!(
            "mariadbd;handle_one_connection;do_command;dispatch_command;mysql_parse;mysql_execute_command;execute_sqlcom_select;JOIN::exec;row_search_mvcc {}\n\
             mariadbd;handle_one_connection;do_command;dispatch_command;mysql_parse;MYSQLparse 160\n\
             mariadbd;handle_one_connection;do_command;dispatch_command;mysql_parse;mysql_execute_command;execute_sqlcom_select;JOIN::optimize 210\n\
             mariadbd;handle_one_connection;do_command;dispatch_command;mysql_parse;mysql_execute_command;start_stage_v1 {plus}\n\
             mariadbd;handle_one_connection;do_command;net_read_packet;vio_read;[kernel] 190\n\
             mariadbd;handle_one_connection;do_command;dispatch_command;net_send_ok;[kernel] 120\n\
             mariadbd;buf_flush_page_cleaner 14\n",
            320 + plus / 4
        );
        fs::write(folder.join("profiles").join(format!("{name}.folded")), stacks).expect("written");
    }
}

impl Generator {
    fn study(&mut self, seed: u64) {
        let cells: Vec<Cell> = WORKLOADS
            .iter()
            .flat_map(|(workload, ..)| {
                USERS.map(|users| Cell { workload: (*workload).into(), users, percent: None })
            })
            .collect();
        self.records.push(Record::Header(Box::new(header(seed, cells.clone()))));
        for cell in &cells {
            self.cell(cell);
        }
        self.records.push(Record::Note(Note { at: 300.0, text: "resumed after a kill".into() }));
        for (setting, factor, enabled) in
            [("tare, all", 1.0, 1000), ("built-in, default", 0.3, 300), ("built-in, all", 1.0, 1000)]
        {
            let counted = [
                ("stage", 328.0),
                ("wait/synch/mutex", 150.0),
                ("wait/io/socket", 32.0),
                ("statement", 16.0),
            ];
            let per_transaction = counted.map(|(class, n)| (class.to_owned(), n * factor)).into();
            self.records.push(Record::Calls(Calls {
                cell: cells[0].clone(),
                setting: setting.into(),
                per_transaction,
                instruments: Some(Instruments { enabled, all: 1000 }),
            }));
        }
        for (setting, _, cost) in SETTINGS {
            let figures = [
                ("instructions", 520_000.0 * (1.0 + cost)),
                ("instructions_per_cycle", 1.5),
                ("cache_misses", 900.0 * (1.0 + 2.0 * cost)),
                ("page_faults", 0.25),
                ("handler_calls", 450.0),
                ("bytes_sent", 21_000.0),
            ];
            let per_transaction = figures.map(|(name, n)| (name.to_owned(), n)).into();
            let (cell, setting) = (cells[0].clone(), setting.to_owned());
            self.records.push(Record::Effort(Effort { cell, setting, warm: false, per_transaction }));
        }
        for (setting, file) in [("off", "off"), ("built-in, all", "built-in-all")] {
            let stacks = format!("profiles/{file}.folded");
            self.records.push(Record::Profile(Profile {
                cell: cells[0].clone(),
                setting: setting.into(),
                stacks,
            }));
        }
        self.records.push(Record::End(End { at: self.at, reason: Reason::AllBlocks }));
    }

    fn cell(&mut self, cell: &Cell) {
        let mut process = vec![0.0; SETTINGS.len()];
        for block in 0..BLOCKS {
            if block % BLOCKS_PER_START == 0 {
                process = SETTINGS.iter().map(|_| self.normal() * PROCESS_NOISE).collect();
            }
            // What drifts hits all settings alike.
            let drift = 1.0 + 0.05 * (f64::from(block) / 5.0).sin();
            let mut order: Vec<usize> = (0..SETTINGS.len()).collect();
            self.random.shuffle(&mut order);
            for (turn, setting) in (0u32..).zip(order) {
                let slower = drift * (1.0 + SETTINGS[setting].2 + process[setting] + self.normal() * NOISE);
                let number = (block / BLOCKS_PER_START) * 6 + u32::try_from(setting).expect("few");
                let slice = self.slice(cell, setting, slower);
                self.records.push(Record::Slice(Box::new(Slice {
                    block,
                    turn,
                    process: Some(number),
                    ..slice
                })));
            }
        }
    }

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn slice(&mut self, cell: &Cell, setting: usize, slower: f64) -> Slice {
        let (_, cpu, statements) = WORKLOADS.into_iter().find(|w| w.0 == cell.workload).expect("known");
        let cpu = cpu * slower * if cell.users > 2 { 1.08 } else { 1.0 };
        let rate = 1.5 / cpu;
        // Not drawn: a further random number would change all that follow.
        let first = (self.at * 0.618).fract() * SCRAPE_SECONDS;
        let scrapes: Vec<f64> = if SETTINGS[setting].0 == ASKED {
            (0..2).map(|nth| first + f64::from(nth) * SCRAPE_SECONDS).collect()
        } else {
            vec![]
        };
        let per_second: Vec<f64> = (0..SECONDS)
            .map(|second| {
                let asked = scrapes.iter().any(|at| at.floor() == f64::from(second));
                let asked = if asked { 1.0 - SCRAPE_COSTS } else { 1.0 };
                let stall = if self.random.u32(..60) == 0 { 0.6 } else { asked };
                (rate * stall * (1.0 + self.normal() * 0.02)).round()
            })
            .collect();
        let transactions = per_second.iter().sum::<f64>();
        let latency = f64::from(cell.users) / rate;
        let at = self.at;
        self.at += f64::from(SECONDS) + 0.4;
        let tpcc = [("notpm".to_owned(), rate * 27.0), ("retries_per_transaction".to_owned(), 0.0015)];
        Slice {
            cell: cell.clone(),
            setting: SETTINGS[setting].0.into(),
            block: 0,
            turn: 0,
            turns: vec![],
            process: None,
            at,
            seconds: f64::from(SECONDS),
            rate: None,
            transactions: transactions as u64,
            queries: transactions as u64 * statements,
            errors: u64::from(cell.workload == "tpcc") * 3,
            cpu_user: cpu * transactions * 0.7,
            cpu_system: cpu * transactions * 0.3,
            cpu_sidecars: 0.0,
            cpu_beside: 0.0,
            resident_sidecars: 0,
            resident_bytes: (290 << 20) + (transactions as u64 * 7919) % (1 << 20) + memory(setting),
            context_switches: (transactions * 2.1) as u64,
            logged_bytes: 0,
            steal: 0.002,
            load: 2.1,
            latency: Latency {
                mean: latency,
                p50: latency * 0.9,
                p95: latency * 1.7,
                p99: latency * 2.6,
                histogram: vec![(latency, transactions as u64 / 2), (latency * 2.0, transactions as u64 / 2)],
            },
            per_second,
            scrapes,
            figures: if cell.workload == "tpcc" { tpcc.into() } else { BTreeMap::new() },
        }
    }

    /// Draws a value of a distribution that is close to normal, with mean 0 and deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0
    }
}

fn header(seed: u64, cells: Vec<Cell>) -> Header {
    let settings = SETTINGS.iter().map(|(name, meaning, _)| SettingFacts {
        name: (*name).into(),
        meaning: (*meaning).into(),
        server: "mariadb".into(),
        made_by: vec![format!(
            "--performance-schema={}",
            if name.starts_with("built") { "ON" } else { "OFF" }
        )],
        base: "off".into(),
        control: *name == "off again",
    });
    let mut header = serde_json::json!({
        "format": FORMAT, "tare": "0.1.0", "started": "2026-01-02T03:04:05Z", "study": "tare",
        "question": "What does tare cost beside the built-in Performance Schema?", "quick": true, "seed": seed,
        "slice_seconds": SECONDS, "precision": 0.005, "margin": 0.01, "measure": "cpu", "most_blocks": BLOCKS,
        "blocks_per_start": BLOCKS_PER_START, "definition": "question = \"…\"\n# <every> key & value\n",
        "machine": Machine {
            cpu_model: "Generated CPU @ 3.00GHz".into(),
            cpus: 2,
            memory_bytes: 24 << 30,
            kernel: "6.1.0".into(),
            system: "Debian GNU/Linux 12".into(),
            hypervisor: Some("KVM".into()),
            clock_mhz: 3000.0,
            governor: Some("performance".into()),
            vulnerabilities: [("mds", "Not affected"), ("spectre_v2", "Mitigation: Retpolines"), ("srso", "Vulnerable")]
                .map(|(name, state)| (name.into(), state.into()))
                .into(),
            others: Others { load: 45.0, busy: 0.87, steal: 0.0, cpus: 2 },
        },
        "servers": [ServerFacts {
            name: "mariadb".into(),
            version: "10.11.19-MariaDB".into(),
            version_comment: "Debian 12".into(),
            cpu: CpuSource::Process,
        }],
        "settings": [], "cells": cells,
    });
    header["settings"] = serde_json::to_value(settings.collect::<Vec<_>>()).expect("JSON");
    serde_json::from_value(header).expect("a header of this format")
}
