//! What a study is, as its results say first, and whether one that goes on there is the same.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::definition::{Definition, SettingDef};
use crate::error::Tried;
use crate::fleet;
use crate::installation::Installation;
use crate::machine;
use crate::record::{FORMAT, Header, Machine, Others, ServerFacts, SettingFacts};
use crate::runner::Order;
use crate::{Error, Result};

/// A file that is measured.
#[derive(Debug)]
pub(crate) struct Measured {
    /// What the study calls it.
    name: String,
    path: PathBuf,
    /// Its SHA-256: a build is told from another one by nothing less than all of it.
    sum: String,
}

/// The files that are measured: programs of servers, and what settings preload.
pub(crate) fn measured(order: &Order, programs: &BTreeMap<String, Installation>) -> Result<Vec<Measured>> {
    let program = |(server, it): (&String, &Installation)| (format!("server {server}"), it.mariadbd.clone());
    let mut files: BTreeMap<String, PathBuf> = programs.iter().map(program).collect();
    for setting in &order.definition.settings {
        if let (Some(name), Some(path)) = (&setting.preload, fleet::preload(setting, &order.preloads)?) {
            files.insert(format!("preload {name}"), path);
        }
    }
    files.into_iter().map(|(name, path)| Ok(Measured { name, sum: checksum(&path)?, path })).collect()
}

fn checksum(path: &Path) -> Result<String> {
    let mut sum = Sha256::new();
    let read = File::open(path).and_then(|mut file| std::io::copy(&mut file, &mut sum));
    read.tried(|| format!("reading {}", path.display()))?;
    // As in every other life, the first one's servers read their code anew.
    fleet::leave_page_cache(path);
    Ok(format!("{:x}", sum.finalize()))
}

/// One that goes on must measure the same files, on the same processors. Older results do not know their files.
pub(crate) fn check_same_conditions(
    order: &Order,
    header: &Header,
    measured: &[Measured],
    machine: &Machine,
) -> Result<()> {
    let was = |file: &&Measured| header.files.get(&file.name).is_none_or(|sum| *sum == file.sum);
    if let Some(Measured { name, path, .. }) = measured.iter().find(|file| !was(file)) {
        let (folder, what, path) = (order.folder.clone(), name.clone(), path.clone());
        return Err(Error::OtherFile { folder, what, path });
    }
    let processors = |m: &Machine| format!("{} × {}", m.cpus, m.cpu_model);
    let (then, now) = (processors(&header.machine), processors(machine));
    if then != now {
        let what = format!("`{}` on another machine ({then}; this one is {now})", header.study);
        return Err(Error::OtherResults { folder: order.folder.clone(), what });
    }
    Ok(())
}

/// A study that goes on must be the same.
pub(crate) fn check_same(order: &Order, header: &Header) -> Result<()> {
    let other = |what: String| Err(Error::OtherResults { folder: order.folder.clone(), what });
    if header.study != order.name {
        return other(format!("the study `{}`", header.study));
    }
    if header.definition != order.text || header.quick != order.quick {
        return other(format!("`{}` with another definition (or with and without --quick)", header.study));
    }
    if header.driver != driver_of(&order.definition) {
        let from = header.driver.as_deref().map_or("this machine".into(), |prefix| format!("`{prefix}`"));
        return other(format!("`{}` driven from {from}", header.study));
    }
    Ok(())
}

/// What starts its driver, if that is elsewhere.
fn driver_of(definition: &Definition) -> Option<String> {
    definition.driver.as_ref().map(|driver| driver.prefix.clone())
}

/// One that goes on must go on for the same reason: its budget decides when it ends.
pub(crate) fn check_same_budget(order: &Order, header: &Header) -> Result<()> {
    if header.budget == order.budget {
        return Ok(());
    }
    let begun = header.budget.map_or("without --fail-above".into(), |b| format!("with --fail-above {b}"));
    let what = format!("`{}`, begun {begun} and not ended yet", header.study);
    Err(Error::OtherResults { folder: order.folder.clone(), what })
}

/// What a study that begins writes first.
pub(crate) fn header(
    order: &Order,
    seed: u64,
    servers: Vec<ServerFacts>,
    measured: &[Measured],
    others: Others,
) -> Header {
    let definition = &order.definition;
    Header {
        format: FORMAT,
        tare: env!("CARGO_PKG_VERSION").into(),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        study: order.name.clone(),
        question: definition.question.clone(),
        quick: order.quick,
        seed,
        slice_seconds: definition.slice_seconds,
        turn_milliseconds: definition.turn_milliseconds,
        precision: definition.precision,
        margin: definition.margin,
        measure: definition.measure,
        budget: order.budget,
        driver: driver_of(definition),
        most_blocks: definition.blocks,
        blocks_per_start: definition.blocks_per_start,
        definition: order.text.clone(),
        machine: Machine { others, ..machine::facts() },
        servers,
        files: measured.iter().map(|file| (file.name.clone(), file.sum.clone())).collect(),
        settings: definition.settings.iter().map(|s| facts(definition, s)).collect(),
        cells: definition.cells(),
        only: definition.workloads.iter().filter_map(|w| Some((w.name.clone(), w.server.clone()?))).collect(),
    }
}

fn facts(definition: &Definition, setting: &SettingDef) -> SettingFacts {
    let server = definition.server_of(setting);
    let variables = setting.environment.iter().map(|(name, value)| format!("{name}={value}"));
    let preload = setting.preload.iter().map(|object| format!("LD_PRELOAD={object}"));
    let sidecars = setting.sidecars.iter().map(|s| {
        let every = s.scrape.as_ref().map(|_| format!("asked every {} s", s.scrape_seconds));
        let beside = (!s.charged).then(|| "its CPU time is not charged".to_owned());
        let notes = every.into_iter().chain(beside).collect::<Vec<_>>().join("; ");
        let notes = if notes.is_empty() { notes } else { format!(" ({notes})") };
        format!("{} {}{notes}", s.program, s.arguments.join(" "))
    });
    let own = setting.options.iter().chain(&setting.switch).cloned();
    SettingFacts {
        name: setting.name.clone(),
        meaning: setting.meaning.clone(),
        server: server.name.clone(),
        made_by: server
            .options
            .iter()
            .cloned()
            .chain(variables)
            .chain(preload)
            .chain(own)
            .chain(sidecars)
            .collect(),
        base: definition.base_of(setting).into(),
        twin: setting.twin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = r#"
question = "What does it cost?"
slice_seconds = 1
blocks = 18
minutes = 1
precision = 0.01
margin = 0.01

[[server]]
name = "mariadb"
program = "mariadbd"

[[setting]]
name = "off"

[[setting]]
name = "on"
preload = "tare"

[[workload]]
name = "points"
run = "oltp_point_select"
users = [2]
"#;

    #[test]
    fn a_study_goes_on_with_the_files_and_processors_it_began_with() {
        let folder = tempfile::tempdir().expect("a folder");
        let [program, object] = ["mariadbd", "libtare.so"].map(|name| folder.path().join(name));
        let write = |path: &Path, text: &str| std::fs::write(path, text).expect("written");
        write(&program, "program");
        write(&object, "object");
        let order = Order {
            name: "files".into(),
            text: STUDY.into(),
            definition: Definition::read(STUDY, "files.toml", false).expect("a study"),
            quick: false,
            folder: "/results".into(),
            programs: BTreeMap::new(),
            preloads: [("tare".to_owned(), object.clone())].into(),
            seed: None,
            budget: None,
            profile: false,
        };
        let installation = Installation {
            mariadbd: program.clone(),
            install_db: None,
            basedir: None,
            version: String::new(),
            plugin_dir: PathBuf::new(),
        };
        let programs = BTreeMap::from([("mariadb".to_owned(), installation)]);
        let files = || measured(&order, &programs).expect("both are there");
        let mut began = header(&order, 1, vec![], &files(), Others::default());
        let here = began.machine.clone();
        let names: Vec<&str> = began.files.keys().map(String::as_str).collect();
        assert_eq!(names, ["preload tare", "server mariadb"]);
        assert_eq!(began.files["preload tare"].len(), 64, "as sha256sum prints it");
        let goes_on =
            |began: &Header, machine: &Machine| check_same_conditions(&order, began, &files(), machine);
        goes_on(&began, &here).expect("all is as it was");

        for (path, what, before) in
            [(&object, "preload tare", "object"), (&program, "server mariadb", "program")]
        {
            write(path, "another");
            let said = goes_on(&began, &here).expect_err("another build").to_string();
            for words in [path.to_str().expect("UTF-8"), what, "put that one back", "--out"] {
                assert!(said.contains(words), "{said}");
            }
            write(path, before);
        }
        let fewer = Machine { cpus: here.cpus + 1, ..here.clone() };
        let said = goes_on(&began, &fewer).expect_err("another number").to_string();
        assert!(said.contains("on another machine") && said.contains("--out"), "{said}");
        let other = Machine { cpu_model: "another".into(), ..here.clone() };
        assert!(goes_on(&began, &other).is_err());

        // Results of before this was written down.
        began.files.clear();
        write(&program, "another");
        goes_on(&began, &here).expect("nothing is known of them");
    }
}
