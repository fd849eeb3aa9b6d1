//! The files to write for a server, and what is in the way.

use std::fs;
use std::path::{Path, PathBuf};

use crate::change::FileChange;
use crate::checks::{self, Finding, FindingKind};
use crate::server::unit::{SystemdUnit, TRIAL, TRIALS};
use crate::server::{FoundServer, PRELOAD, TRIED, has_provider, is_provider, option_file, preloads};

/// Name of the drop-in, which sorts after most others, because it takes over their preloads.
const DROP_IN: &str = "zz-tare.conf";
/// Folder of an administrator's units and drop-ins.
const UNITS: &str = "/etc/systemd/system";
/// First line of all files: who wrote them, and how to remove them.
const HEAD: &str = "# Written by `tare install`; `tare uninstall` removes it.\n";

/// Returns the files that a server's unit needs to load the provider, and the doctor's findings about it.
pub(super) fn install(
    server: &FoundServer,
    provider: &Path,
    program: &Path,
) -> (Vec<FileChange>, Vec<Finding>) {
    let mut findings = checks::before(server, provider, program);
    let Some(unit) = &server.unit else { return (vec![], findings) };
    let mut changes = vec![];
    // The drop-in refers to the trial.
    for (path, content) in [(trial_path(), Ok(trial(program))), (drop_in_path(unit), drop_in(unit, provider))]
    {
        match content {
            _ if is_anothers(server, &path) => findings.push(in_place_of_ours(&path)),
            Ok(content) => changes.push(FileChange { path, content: Some(content.into()) }),
            Err(finding) => findings.push(finding),
        }
    }
    match option_file::place(server) {
        Some(path) if is_anothers(server, &path) => findings.extend(checks::unasked_plugin(server)),
        Some(path) => {
            let content = option_text(server, &path);
            changes.push(FileChange { path, content: Some(content) });
        }
        // It is optional if the plugin needs no file.
        None => findings.extend(checks::unread_options(server)),
    }
    (changes, findings)
}

/// Removes all files that `tare install` wrote; those that servers share stay while another unit has tare.
pub(super) fn uninstall(server: &FoundServer, all: &[FoundServer]) -> (Vec<FileChange>, Vec<Finding>) {
    let Some(unit) = &server.unit else { return (vec![], vec![]) };
    let is_file = |path: &PathBuf| server.root.at(path).is_file();
    let own = drop_in_path(unit);
    let others = all.iter().filter_map(|other| other.unit.as_ref()).filter(|other| other.name != unit.name);
    let needed = others.map(drop_in_path).any(|path| is_file(&path));
    // An earlier version wrote into the usual folders, whether or not they were read.
    let usual = option_file::USUAL.iter().map(|folder| Path::new(folder).join(option_file::NAME));
    let mut options: Vec<PathBuf> = option_file::places(server).into_iter().chain(usual).collect();
    options.sort();
    options.dedup();
    let has_tare = |other: &&FoundServer| {
        let other = other.unit.as_ref().filter(|other| other.name != unit.name);
        other.is_some_and(|other| is_file(&drop_in_path(other)))
    };
    let of_others: Vec<PathBuf> = all.iter().filter(has_tare).flat_map(option_file::places).collect();
    options.retain(|path| is_file(path) && !of_others.contains(path));
    let trial = Some(trial_path()).filter(|path| is_file(path) && !needed);
    let files = std::iter::once(own.clone()).chain(options).chain(trial);
    let files = files.filter(|path| !is_anothers(server, path));
    let files = files.chain(Some(unit.trial()).filter(is_file));
    let changes = files.map(|path| FileChange { path, content: None }).collect();
    let left = unit.environment_without(&own).remove(PRELOAD);
    let left = left.filter(|variable| has_provider(variable.value.as_ref()));
    let still = left.map(|variable| {
        let file = variable.file.display();
        let what = format!("{file} has the server load tare, too, and was not written by `tare install`");
        Finding::problem("preload", what, format!("take the line out of {file}"))
    });
    (changes, still.into_iter().collect())
}

/// Returns whether there is such a file that somebody else wrote; it is left alone.
fn is_anothers(server: &FoundServer, path: &Path) -> bool {
    // It may not be UTF-8.
    fs::read(server.root.at(path)).is_ok_and(|bytes| !bytes.starts_with(HEAD.as_bytes()))
}

fn in_place_of_ours(path: &Path) -> Finding {
    let what = format!("{} is there, and was not written by `tare install`", path.display());
    Finding::problem("preload", what, "give it another name, or remove it")
}

/// Returns whether an installation is refused because of this finding: the server would not have tare, or not
/// start. Full tables and a missing plugin are only reported.
pub(super) fn is_in_the_way(finding: &Finding) -> bool {
    finding.kind == FindingKind::Problem && finding.check != "plugin"
}

fn drop_in_path(unit: &SystemdUnit) -> PathBuf {
    Path::new(UNITS).join(format!("{}.d", unit.name)).join(DROP_IN)
}

fn trial_path() -> PathBuf {
    Path::new(UNITS).join(TRIAL)
}

/// Returns the unit that tries what a server is to preload before each start of it, in an environment without
/// that. It first removes the result of the previous trial, so that the server starts without tare if this
/// program is missing, hangs or is broken. There is no limit on the number of starts.
fn trial(program: &Path) -> String {
    format!(
        "{HEAD}[Unit]\nDescription=Trial of what %i.service is to preload\nStartLimitIntervalSec=0\n\n[Service]\nType=oneshot\n\
         TimeoutStartSec=30\nExecStartPre=/bin/rm -f {TRIALS}/%i.env\nExecStart={} preload %i.service\n",
        program.display()
    )
}

/// Returns the drop-in: tare first, then what the unit preloads otherwise (an allocator, say), if the trial
/// succeeds; else only the latter.
fn drop_in(unit: &SystemdUnit, provider: &Path) -> Result<String, Finding> {
    let own = drop_in_path(unit);
    let environment = unit.environment_without(&own);
    let already = environment.get(PRELOAD);
    // Of several environment files the last one wins.
    let comes_later = |named_in: &PathBuf| {
        named_in.parent().is_some_and(|folder| folder.extension() == Some("d".as_ref()))
            && named_in.file_name() > own.file_name()
    };
    if let Some(variable) = already.filter(|variable| variable.named_in.as_ref().is_some_and(comes_later)) {
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
    if let Some(setting) = unit.unset(PRELOAD) {
        let file = setting.file.display();
        let what = format!("UnsetEnvironment= in {file} takes {PRELOAD} from the server");
        return Err(Finding::problem("preload", what, format!("take {PRELOAD} out of the line in {file}")));
    }
    let others = already.map(|variable| preloads(variable.value.as_ref())).unwrap_or_default();
    let others = others.into_iter().filter(|path| !is_provider(path));
    let list: Vec<String> =
        std::iter::once(provider.to_owned()).chain(others).map(|path| path.display().to_string()).collect();
    let trial = unit.trial_unit();
    Ok(format!(
        "{HEAD}[Unit]\n# tries it before each start, in a process of its own\nWants={trial}\nAfter={trial}\n\n[Service]\n\
         Environment={TRIED}={}\n# sets {PRELOAD} to that if a program that loads it lives\nEnvironmentFile=-{}\n",
        list.join(":"),
        unit.trial().display()
    ))
}

/// Returns the option file: it loads the plugin, if that is installed and not loaded otherwise, and has a
/// place for tare's own options.
fn option_text(server: &FoundServer, path: &Path) -> Vec<u8> {
    let wanted = option_file::is_needed(server, Some(path));
    let plugin = if wanted {
        "[mariadbd]\n# the storage engine the tables are read through\nplugin-load-add = ha_federatedx\n\n"
    } else {
        ""
    };
    // Settings in the file are the administrator's, and stay unchanged.
    if let Ok(text) = fs::read(server.root.at(path)) {
        let missing = wanted && !String::from_utf8_lossy(&text).contains("plugin-load-add");
        let (head, rest) = text.split_at(HEAD.len().min(text.len()));
        return if missing { [head, plugin.as_bytes(), rest].concat() } else { text };
    }
    let about = "[tare]\n# options.md, in tare's documentation, says what can be set here; the defaults have everything useful on\n";
    format!("{HEAD}{plugin}{about}").into()
}
