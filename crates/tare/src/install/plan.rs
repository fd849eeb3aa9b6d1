//! What is to be written for a server, and what is in the way.

use std::fs;
use std::path::{Path, PathBuf};

use tare_mariadb::options::Origin;

use super::change::Change;
use crate::doctor::{self, Finding, Kind};
use crate::server::unit::Unit;
use crate::server::{PRELOAD, Server, is_provider, preloads};

/// The drop-in's name: it comes after most others', whose preloads it takes over.
const DROP_IN: &str = "zz-tare.conf";
/// The option file's name.
const OPTION_FILE: &str = "90-tare.cnf";
/// Where option files of one's own go; the first that is there.
const OPTION_FOLDERS: [&str; 4] =
    ["/etc/mysql/mariadb.conf.d", "/etc/my.cnf.d", "/etc/mysql/conf.d", "/etc/mysql/my.cnf.d"];
/// What both files begin with: who wrote them, and how they go.
const HEAD: &str = "# Written by `tare install`; `tare uninstall` removes it.\n";

/// What a server's unit needs to load the provider, and what the doctor says of that.
pub(super) fn install(server: &Server, provider: &Path) -> (Vec<Change>, Vec<Finding>) {
    let mut findings = doctor::before(server, provider);
    let Some(unit) = &server.unit else { return (vec![], findings) };
    let mut changes = vec![];
    match drop_in(unit, provider) {
        Ok(content) => changes.push(Change { path: drop_in_path(unit), content: Some(content) }),
        Err(finding) => findings.push(finding),
    }
    match option_file(server) {
        Some(path) if is_anothers(server, &path) => findings.extend(doctor::unasked_plugin(server)),
        Some(path) => {
            let content = option_text(server, &path);
            changes.push(Change { path, content: Some(content) });
        }
        None => findings.push(Finding::problem(
            "options",
            format!("none of the folders for option files is there: {}", OPTION_FOLDERS.join(", ")),
            "make one that the server's my.cnf includes (`!includedir`)",
        )),
    }
    (changes, findings)
}

/// Both files away, as far as `tare install` wrote them; the option file stays while another unit has tare.
pub(super) fn uninstall(server: &Server, all: &[Server]) -> (Vec<Change>, Vec<Finding>) {
    let Some(unit) = &server.unit else { return (vec![], vec![]) };
    let root = &server.root;
    let own = drop_in_path(unit);
    let others = all.iter().filter_map(|other| other.unit.as_ref()).filter(|other| other.name != unit.name);
    let needed = others.map(drop_in_path).any(|path| root.at(&path).is_file());
    let options = OPTION_FOLDERS.iter().map(|folder| Path::new(folder).join(OPTION_FILE));
    let options = options.filter(|path| root.at(path).is_file() && !needed);
    let files = std::iter::once(own.clone()).chain(options).filter(|path| !is_anothers(server, path));
    let changes = files.map(|path| Change { path, content: None }).collect();
    let left = unit.environment_without(&own).remove(PRELOAD);
    let left = left.filter(|variable| preloads(variable.value.as_ref()).iter().any(|path| is_provider(path)));
    let still = left.map(|variable| {
        let file = variable.file.display();
        let what = format!("{file} has the server load tare, too, and was not written by `tare install`");
        Finding::problem("preload", what, format!("take the line out of {file}"))
    });
    (changes, still.into_iter().collect())
}

/// Whether there is such a file that somebody else wrote: it is left alone.
fn is_anothers(server: &Server, path: &Path) -> bool {
    fs::read_to_string(server.root.at(path)).is_ok_and(|text| !text.starts_with(HEAD))
}

/// Whether an installation is not begun because of this: with it the server would not have tare, or not start. A table
/// that is full or a plugin that is missing is told and no more.
pub(super) fn is_in_the_way(finding: &Finding) -> bool {
    finding.kind == Kind::Problem && finding.check != "plugin"
}

fn drop_in_path(unit: &Unit) -> PathBuf {
    Path::new("/etc/systemd/system").join(format!("{}.d", unit.name)).join(DROP_IN)
}

/// tare first, then what the unit has preloaded all along (an allocator, say).
fn drop_in(unit: &Unit, provider: &Path) -> Result<String, Finding> {
    let own = drop_in_path(unit);
    let environment = unit.environment_without(&own);
    let already = environment.get(PRELOAD);
    if let Some(variable) =
        already.filter(|variable| variable.late || variable.file.file_name() > own.file_name())
    {
        let file = variable.file.display();
        return Err(Finding::problem(
            "preload",
            format!("{file} sets {PRELOAD} and comes after tare's drop-in, which it would overrule"),
            format!(
                "name {} there first, before what it names; or take the line out of {file}",
                provider.display()
            ),
        ));
    }
    let others = already.map(|variable| preloads(variable.value.as_ref())).unwrap_or_default();
    let others = others.into_iter().filter(|path| !is_provider(path));
    let list: Vec<String> =
        std::iter::once(provider.to_owned()).chain(others).map(|path| path.display().to_string()).collect();
    Ok(format!("{HEAD}[Service]\nEnvironment={PRELOAD}={}\n", list.join(":")))
}

fn option_file(server: &Server) -> Option<PathBuf> {
    let mut folders = OPTION_FOLDERS.iter().map(Path::new);
    folders.find(|folder| server.root.at(folder).is_dir()).map(|folder| folder.join(OPTION_FILE))
}

/// The plugin, where it is there and nobody else loads it; and the place for tare's own options.
fn option_text(server: &Server, path: &Path) -> String {
    let server = &server.next();
    let prospect = server.prospect();
    let is_own = |origin: &Origin| matches!(origin, Origin::File { path: file, .. } if file == path);
    let wanted = server.plugin(&prospect).is_some()
        && !prospect.asks_for_plugin(&server.arguments(), |origin| !is_own(origin));
    let plugin = if wanted {
        "[mariadbd]\n# the storage engine the tables are read through\nplugin-load-add = ha_federatedx\n\n"
    } else {
        ""
    };
    // What was set in the file is the administrator's, and stays.
    if let Ok(text) = fs::read_to_string(server.root.at(path)) {
        let missing = wanted && !text.contains("plugin-load-add");
        return if missing { text.replacen(HEAD, &format!("{HEAD}{plugin}"), 1) } else { text };
    }
    let about = "[tare]\n# README.md says what can be set here; the defaults have everything useful on\n";
    format!("{HEAD}{plugin}{about}")
}
