//! The identity of a study: the head of its results, and the check that a continued study is the same one.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use tare_server::installation::Installation;

use super::order::StudyOrder;
use crate::definition::{Definition, SettingDef, SidecarDef};
use crate::error::Tried;
use crate::load::workload::SysbenchScript;
use crate::machine;
use crate::results::record::{FORMAT, Header, Machine, Others, ServerFacts, SettingFacts, short};
use crate::study::servers::fleet;
use crate::study::servers::sidecar;
use crate::{Error, Result};

/// The running version of tare.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The content of every file that is part of what is measured.
#[derive(Debug)]
pub(crate) struct StudyIdentity {
    files: Vec<Measured>,
}

/// A file whose content is part of what is measured.
#[derive(Debug)]
struct Measured {
    /// The study's name for it.
    name: String,
    path: PathBuf,
    /// SHA-256 of the whole file, which tells builds apart.
    sum: String,
}

impl StudyIdentity {
    /// Reads the files that are measured.
    pub(crate) fn of(order: &StudyOrder, programs: &BTreeMap<String, Installation>) -> Result<StudyIdentity> {
        Ok(StudyIdentity { files: measured(order, programs)? })
    }

    /// Checks that a continued study measures the same files, on the same processors, with the same version.
    /// Older results do not list all of their files.
    pub(crate) fn check_continued(&self, order: &StudyOrder, begun: &Header) -> Result<()> {
        check_same_conditions(order, begun, &self.files, &machine::facts())
    }

    /// Builds the first record of a new study.
    pub(crate) fn header(
        &self,
        order: &StudyOrder,
        seed: u64,
        servers: Vec<ServerFacts>,
        others: Others,
    ) -> Header {
        let definition = &order.definition;
        Header {
            format: FORMAT,
            tare: VERSION.into(),
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
            files: self.files.iter().map(|file| (file.name.clone(), file.sum.clone())).collect(),
            settings: definition.settings.iter().map(|s| facts(definition, s)).collect(),
            cells: definition.cells(),
            only: definition
                .workloads
                .iter()
                .filter_map(|w| Some((w.name.clone(), w.server.clone()?)))
                .collect(),
        }
    }
}

/// Returns the files that are measured: programs of servers and sidecars, preloaded objects, recordings and
/// their data.
fn measured(order: &StudyOrder, programs: &BTreeMap<String, Installation>) -> Result<Vec<Measured>> {
    let program = |(server, it): (&String, &Installation)| (format!("server {server}"), it.mariadbd.clone());
    let mut files: BTreeMap<String, PathBuf> = programs.iter().map(program).collect();
    for setting in &order.definition.settings {
        if let (Some(name), Some(path)) = (&setting.preload, fleet::preload(setting, &order.preloads)?) {
            files.insert(format!("preload {name}"), path);
        }
        for sidecar in &setting.sidecars {
            files.insert(format!("sidecar {}", sidecar.program), sidecar::find(sidecar)?);
        }
    }
    files.extend(replayed(&order.definition));
    files.into_iter().map(|(name, path)| Ok(Measured { name, sum: checksum(&path)?, path })).collect()
}

/// Returns recordings and their data, by the workloads' options that name them.
fn replayed(definition: &Definition) -> Vec<(String, PathBuf)> {
    let recorded = definition.workloads.iter().filter(|w| w.run.script == SysbenchScript::Recorded);
    let options = recorded.flat_map(|workload| workload.given());
    let files = options.filter(|(option, _)| ["recording", "data"].contains(&option.as_str()));
    files.map(|(option, path)| (format!("{option} {path}"), path.into())).collect()
}

fn checksum(path: &Path) -> Result<String> {
    let mut sum = Sha256::new();
    let read = File::open(path).and_then(|mut file| std::io::copy(&mut file, &mut sum));
    read.tried(|| format!("reading {}", path.display()))?;
    // The first servers read their code anew, as all later ones do.
    fleet::leave_page_cache(path);
    Ok(format!("{:x}", sum.finalize()))
}

fn check_same_conditions(
    order: &StudyOrder,
    header: &Header,
    measured: &[Measured],
    machine: &Machine,
) -> Result<()> {
    let other = |what: String| Err(Error::OtherResults { folder: order.folder.clone(), what });
    if header.tare != VERSION {
        return other(format!(
            "`{}` by another version of tare ({}; this one is {VERSION})",
            header.study, header.tare
        ));
    }
    let was = |file: &&Measured| header.files.get(&file.name).is_none_or(|sum| *sum == file.sum);
    if let Some(Measured { name, path, .. }) = measured.iter().find(|file| !was(file)) {
        let (folder, what, path) = (order.folder.clone(), name.clone(), path.clone());
        return Err(Error::OtherFile { folder, what, path });
    }
    let processors = |m: &Machine| format!("{} × {}", m.cpus, m.cpu_model);
    let (then, now) = (processors(&header.machine), processors(machine));
    if then != now {
        return other(format!("`{}` on another machine ({then}; this one is {now})", header.study));
    }
    Ok(())
}

/// Checks that the results in the order's folder are those of the same study. One that is over is only shown,
/// so its budget may be another.
pub(crate) fn check_same(order: &StudyOrder, header: &Header, is_over: bool) -> Result<()> {
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
    if is_over { Ok(()) } else { check_same_budget(order, header) }
}

/// Returns the command prefix of a driver on another machine.
fn driver_of(definition: &Definition) -> Option<String> {
    definition.driver.as_ref().map(|driver| driver.prefix.clone())
}

/// Checks that a continued study has the same budget, which decides when it ends.
fn check_same_budget(order: &StudyOrder, header: &Header) -> Result<()> {
    if header.budget == order.budget {
        return Ok(());
    }
    let begun = header.budget.map_or("without --fail-above".into(), |b| format!("with --fail-above {b}"));
    let what = format!("`{}`, begun {begun} and not ended yet", header.study);
    Err(Error::OtherResults { folder: order.folder.clone(), what })
}

fn facts(definition: &Definition, setting: &SettingDef) -> SettingFacts {
    let server = definition.server_of(setting);
    let variables = setting.environment.iter().map(|(name, value)| format!("{name}={value}"));
    let preload = setting.preload.iter().map(|object| format!("LD_PRELOAD={object}"));
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
            .chain(setting.sidecars.iter().map(typed))
            .collect(),
        base: definition.base_of(setting).into(),
        control: setting.control,
    }
}

/// Describes a sidecar: its command line, and the rest of its configuration. Files are shown by their
/// checksums.
fn typed(sidecar: &SidecarDef) -> String {
    let variables: String =
        sidecar.environment.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let every = sidecar.scrape.as_ref().map(|_| format!("asked every {} s", sidecar.scrape_seconds));
    let beside = (!sidecar.charged).then(|| "its CPU time is not charged".to_owned());
    let tls = sidecar.tls.then(|| "with a certificate".to_owned());
    let files = sidecar.files.iter().map(|(name, content)| {
        let sum = format!("{:x}", Sha256::digest(content));
        format!("{name} with SHA-256 {}…", short(&sum))
    });
    let notes = every.into_iter().chain(beside).chain(tls).chain(files).collect::<Vec<_>>().join("; ");
    let notes = if notes.is_empty() { notes } else { format!(" ({notes})") };
    format!("{variables}{} {}{notes}", sidecar.program, sidecar.arguments.join(" "))
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

[[setting.sidecar]]
program = "FOLDER/agent"
arguments = ["--quiet"]

[[workload]]
name = "points"
run = "oltp_point_select"
users = [2]

[[workload]]
name = "mine"
run = "replay"
options = { recording = "FOLDER/shop.rec", data = "FOLDER/shop.sql" }
users = [2]
"#;

    /// The study's names of its files, and the path of each.
    const FILES: [(&str, &str); 5] = [
        ("data FOLDER/shop.sql", "shop.sql"),
        ("preload tare", "libtare.so"),
        ("recording FOLDER/shop.rec", "shop.rec"),
        ("server mariadb", "mariadbd"),
        ("sidecar FOLDER/agent", "agent"),
    ];

    /// A study with its files, and the programs of its servers.
    struct Place {
        folder: tempfile::TempDir,
        order: StudyOrder,
        programs: BTreeMap<String, Installation>,
    }

    impl Place {
        fn new() -> Place {
            let folder = tempfile::tempdir().expect("a folder");
            let text = STUDY.replace("FOLDER", folder.path().to_str().expect("UTF-8"));
            let order = StudyOrder {
                credentials: crate::server::target::AccountPasswords::default(),
                name: "files".into(),
                definition: Definition::read(&text, "files.toml", false).expect("a study"),
                text,
                quick: false,
                folder: "/results".into(),
                programs: BTreeMap::new(),
                preloads: [("tare".to_owned(), folder.path().join("libtare.so"))].into(),
                seed: None,
                budget: None,
                profile: false,
            };
            let installation = Installation {
                mariadbd: folder.path().join("mariadbd"),
                install_db: None,
                basedir: None,
                version: String::new(),
                plugin_dir: PathBuf::new(),
            };
            let programs = BTreeMap::from([("mariadb".to_owned(), installation)]);
            let place = Place { folder, order, programs };
            FILES.iter().for_each(|(_, file)| place.write(file, file));
            place
        }

        fn write(&self, file: &str, text: &str) {
            std::fs::write(self.folder.path().join(file), text).expect("written");
        }

        fn header(&self) -> Header {
            self.identity().header(&self.order, 1, vec![], Others::default())
        }

        fn identity(&self) -> StudyIdentity {
            StudyIdentity::of(&self.order, &self.programs).expect("all are there")
        }

        fn goes_on(&self, began: &Header, machine: &Machine) -> Result<()> {
            check_same_conditions(&self.order, began, &self.identity().files, machine)
        }
    }

    #[test]
    fn a_study_goes_on_with_the_files_it_began_with() {
        let place = Place::new();
        let mut began = place.header();
        let here = began.machine.clone();
        let path = place.folder.path().to_str().expect("UTF-8");
        let names: Vec<String> = began.files.keys().map(|name| name.replace(path, "FOLDER")).collect();
        assert_eq!(names, FILES.map(|(name, _)| name));
        assert_eq!(began.files["preload tare"].len(), 64, "as sha256sum prints it");
        place.goes_on(&began, &here).expect("all is as it was");

        for (name, file) in FILES {
            place.write(file, "another");
            let said = place.goes_on(&began, &here).expect_err("another build").to_string();
            let named = format!("{path}/{file} is now (`{}`)", name.replace("FOLDER", path));
            for words in [named.as_str(), "put that one back", "--output"] {
                assert!(said.contains(words), "{said}");
            }
            place.write(file, file);
        }

        // Older results do not have these files.
        for name in ["data ", "recording ", "sidecar "] {
            began.files.retain(|known, _| !known.starts_with(name));
        }
        place.write("agent", "another");
        place.goes_on(&began, &here).expect("nothing is known of it");
        began.files.clear();
        place.write("mariadbd", "another");
        place.goes_on(&began, &here).expect("nothing is known of any");
    }

    #[test]
    fn a_study_goes_on_with_the_processors_and_the_version_it_began_with() {
        let place = Place::new();
        let began = place.header();
        let here = began.machine.clone();
        let fewer = Machine { cpus: here.cpus + 1, ..here.clone() };
        let said = place.goes_on(&began, &fewer).expect_err("another number").to_string();
        assert!(said.contains("on another machine") && said.contains("--output"), "{said}");
        let other = Machine { cpu_model: "another".into(), ..here.clone() };
        assert!(place.goes_on(&began, &other).is_err());

        let earlier = Header { tare: "0.0.9".into(), ..began };
        let said = place.goes_on(&earlier, &here).expect_err("another version").to_string();
        let expected = format!("`files` by another version of tare (0.0.9; this one is {VERSION})");
        assert!(said.contains(&expected) && said.contains("--output"), "{said}");
    }

    #[test]
    fn what_makes_a_sidecar_makes_its_setting() {
        let made_by = |change: fn(&mut SidecarDef)| {
            let mut definition = Place::new().order.definition;
            // The third setting, after the base and its control.
            let sidecar = &mut definition.settings[2].sidecars[0];
            sidecar.program = "agent".into();
            change(sidecar);
            facts(&definition, &definition.settings[2]).made_by
        };
        assert_eq!(made_by(|_| {}), ["LD_PRELOAD=tare", "agent --quiet"]);
        let all = made_by(|sidecar| {
            sidecar.environment = BTreeMap::from([("LEVEL".into(), "2".into()), ("MODE".into(), "x".into())]);
            sidecar.files = BTreeMap::from([("agent.cnf".into(), "abc".into())]);
            sidecar.tls = true;
        });
        // The beginning of what sha256sum prints for `abc`.
        let expected =
            "LEVEL=2 MODE=x agent --quiet (with a certificate; agent.cnf with SHA-256 ba7816bf8f01…)";
        assert_eq!(all[1], expected);
        let other = made_by(|sidecar| sidecar.files = BTreeMap::from([("agent.cnf".into(), "abd".into())]));
        assert!(other[1].contains("agent.cnf") && !other[1].contains("ba7816bf8f01"), "{other:?}");
    }
}
