//! The option file of `tare install`: where a server reads it, and what is in the way if it reads none.

use std::path::{Path, PathBuf};

use tare_host::options::{OptionFiles, OptionOrigin};

use super::FoundServer;

/// Name of the file.
pub(crate) const NAME: &str = "90-tare.cnf";
/// Usual folders for option files; the first one that a server reads is used.
pub(crate) const USUAL: [&str; 4] =
    ["/etc/mysql/mariadb.conf.d", "/etc/my.cnf.d", "/etc/mysql/conf.d", "/etc/mysql/my.cnf.d"];
/// The folder that is recommended if a server reads none.
const PROPOSED: &str = "/etc/mysql/tare.d";

/// Returns the files that a server's next start reads, in the folders it includes.
pub(crate) fn places(server: &FoundServer) -> Vec<PathBuf> {
    let files = server.next().prospect().files;
    let is_whole = |folder: &&PathBuf| folder.is_absolute();
    files.folders().iter().filter(is_whole).map(|folder| folder.join(NAME)).collect()
}

/// Returns the file to write: the existing one, or one in a usual folder, or one in the last folder.
pub(crate) fn place(server: &FoundServer) -> Option<PathBuf> {
    let places = places(server);
    let usual = || USUAL.iter().map(|folder| Path::new(folder).join(NAME)).find(|path| places.contains(path));
    let there = places.iter().find(|path| server.root.at(path).is_file()).cloned();
    there.or_else(usual).or_else(|| places.last().cloned())
}

/// Returns whether the plugin is installed, and only the file at `own` makes the server load it.
pub(crate) fn is_needed(server: &FoundServer, own: Option<&Path>) -> bool {
    let server = &server.next();
    let prospect = server.prospect();
    let is_own =
        |origin: &OptionOrigin| matches!(origin, OptionOrigin::File { path, .. } if Some(&**path) == own);
    !prospect.is_mysql()
        && server.plugin(&prospect).is_some()
        && !prospect.asks_for_plugin(&server.arguments(), |origin| !is_own(origin))
}

/// Returns why no file that could be written is read, and what to do; `None` if one is, or none is needed.
pub(crate) fn obstacle(server: &FoundServer) -> Option<(String, String)> {
    if place(server).is_some() || !is_needed(server, None) {
        return None;
    }
    let files: OptionFiles = server.next().prospect().files;
    if files.are_refused() {
        return Some((
            "the server reads no option file, because it is started with --no-defaults: the plugin ha_federatedx would not be loaded"
                .to_owned(),
            "take --no-defaults out of the unit's ExecStart, or add --plugin-load-add=ha_federatedx there".to_owned(),
        ));
    }
    let include = format!("`!includedir {PROPOSED}`");
    Some(match files.read_files().split_last() {
        Some((last, others)) => (
            format!(
                "the server reads no folder of option files, where tare's would be put: it reads {}",
                others.iter().chain([last]).map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
            ),
            format!(
                "make the folder {PROPOSED} and add the line {include} to {0}; or put `plugin-load-add = ha_federatedx` into \
                 [mariadbd] of {0} yourself. Then tare install",
                last.display()
            ),
        ),
        None => (
            "the server reads no option file: none of those that it looks for is there, or one may be written by anybody".to_owned(),
            format!("make the folder {PROPOSED}, and /etc/my.cnf with the line {include}. Then tare install"),
        ),
    })
}
