//! systemd's units of servers, parsed from their files; systemd itself is not queried, and need not run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};
use tare_host::options::Root;

use super::{PRELOAD, TRIED};

/// Folder with the results of `tare preload`. Only root may write there, as they make servers load objects.
pub(crate) const TRIALS: &str = "/run/tare";
/// The unit that tries what a server is to preload; its instance is the server's name without `.service`.
pub(crate) const TRIAL: &str = "tare-preload@.service";
/// Folders of units and their drop-ins; earlier ones win.
const FOLDERS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
/// Number of the administrator's folders among them, whose files show which instances are wanted.
const ADMINISTRATORS: usize = 2;
/// Most links that are followed from an alias to its unit.
const MOST_LINKS: usize = 8;
/// Names of a server's program and of the scripts that start it.
const PROGRAMS: [&str; 4] = ["mariadbd", "mysqld", "mariadbd-safe", "mysqld_safe"];

/// `KEY=VALUE` of a unit's section `[Service]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnitSetting {
    pub(crate) key: String,
    pub(crate) value: String,
    /// Path of its file on the unit's system.
    pub(crate) file: PathBuf,
}

/// A variable of a unit's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) value: String,
    /// The file that sets it.
    pub(crate) file: PathBuf,
    /// If `file` is an environment file, the unit's file or drop-in that names it: these override all
    /// settings in units.
    pub(crate) named_in: Option<PathBuf>,
}

/// A unit that starts a server.
#[derive(Clone, Debug)]
pub(crate) struct SystemdUnit {
    /// Name such as `mariadb@a.service`.
    pub(crate) name: String,
    settings: Vec<UnitSetting>,
    root: Root,
}

impl SystemdUnit {
    /// Reads the unit of this name or alias; `None` if there is none, or it is masked.
    pub(crate) fn read(root: &Root, name: &str) -> Option<SystemdUnit> {
        let name = if name.contains('.') { name.to_owned() } else { format!("{name}.service") };
        let name = real_name(root, name);
        let main = places(&name).find(|path| root.at(path).is_file() || is_masked(root, path))?;
        if is_masked(root, &main) {
            return None;
        }
        let mut unit = SystemdUnit { name: name.clone(), settings: vec![], root: root.clone() };
        let instance = instance(&name).map(|(_, instance)| instance).unwrap_or_default();
        for file in std::iter::once(main).chain(drop_ins(root, &name)) {
            let text = fs::read(root.at(&file)).unwrap_or_default();
            unit.settings.extend(settings(&String::from_utf8_lossy(&text), &file, &name, instance));
        }
        Some(unit)
    }

    /// Returns every unit that starts a server, by name.
    pub(crate) fn all(root: &Root) -> Vec<SystemdUnit> {
        let mut names: Vec<String> =
            FOLDERS.iter().flat_map(|folder| listed(root, Path::new(folder))).collect();
        names.retain(|name| name.ends_with(".service"));
        let wanted = FOLDERS[..ADMINISTRATORS].iter().flat_map(|folder| wanted(root, Path::new(folder)));
        names.extend(wanted);
        names.retain(|name| !name.contains("@."));
        let mut names: Vec<String> = names.into_iter().map(|name| real_name(root, name)).collect();
        names.sort();
        names.dedup();
        let units = names.iter().filter_map(|name| SystemdUnit::read(root, name));
        units.filter(|unit| unit.command().is_some()).collect()
    }

    /// Returns the effective setting of a key with a single value.
    pub(crate) fn setting(&self, key: &str) -> Option<&UnitSetting> {
        self.settings
            .iter()
            .rev()
            .find(|setting| setting.key == key)
            .filter(|setting| !setting.value.is_empty())
    }

    /// Returns the settings of a key that accumulate; an empty one resets the previous ones.
    fn settings<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a UnitSetting> {
        let of_key = || self.settings.iter().filter(move |setting| setting.key == key);
        let kept = of_key().rev().take_while(|setting| !setting.value.is_empty()).count();
        of_key().skip(of_key().count() - kept)
    }

    /// Returns the setting if it is on.
    pub(crate) fn switched_on(&self, key: &str) -> Option<&UnitSetting> {
        let yes = |setting: &&UnitSetting| {
            ["yes", "true", "on", "1"].iter().any(|yes| setting.value.eq_ignore_ascii_case(yes))
        };
        self.setting(key).filter(yes)
    }

    /// Returns the environment of the unit's programs.
    pub(crate) fn environment(&self) -> BTreeMap<String, Variable> {
        self.environment_without(Path::new(""))
    }

    /// Returns the environment without the settings of one of the unit's files.
    pub(crate) fn environment_without(&self, file: &Path) -> BTreeMap<String, Variable> {
        let mut environment = BTreeMap::new();
        let mut set = |text: &str, file: &Path, named_in: Option<&Path>| {
            if let Some((name, value)) = text.split_once('=') {
                let (file, named_in) = (file.to_owned(), named_in.map(Path::to_owned));
                let variable = Variable { value: value.to_owned(), file, named_in };
                environment.insert(name.to_owned(), variable);
            }
        };
        for setting in self.settings("Environment").filter(|setting| setting.file != file) {
            words(&setting.value).iter().for_each(|word| set(word, &setting.file, None));
        }
        for setting in self.settings("EnvironmentFile").filter(|setting| setting.file != file) {
            let named_in = Some(&*setting.file);
            let file = Path::new(setting.value.trim_start_matches('-'));
            let text = fs::read_to_string(self.root.at(file)).unwrap_or_default();
            for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
                if let Some((name, value)) = line.split_once('=') {
                    set(&format!("{name}={}", words(value).join(" ")), file, named_in);
                }
            }
        }
        for setting in self.settings("UnsetEnvironment") {
            words(&setting.value).iter().for_each(|name| drop(environment.remove(name)));
        }
        environment
    }

    /// Returns the setting that removes a variable from the environment.
    pub(crate) fn unset(&self, name: &str) -> Option<&UnitSetting> {
        self.settings("UnsetEnvironment")
            .find(|setting| words(&setting.value).iter().any(|word| word == name))
    }

    /// Returns the account that the unit's `User=` names. `None`: the unit has no such setting, or this
    /// machine has no such account.
    pub(crate) fn user(&self) -> Option<User> {
        let name = &self.setting("User")?.value;
        let by_number = || User::from_uid(Uid::from_raw(name.parse().ok()?)).ok()?;
        User::from_name(name).ok()?.or_else(by_number)
    }

    /// Returns what the server is to preload at its next start, if the trial succeeds.
    pub(crate) fn preload(&self) -> Option<String> {
        let mut environment = self.environment();
        environment.remove(TRIED).or_else(|| environment.remove(PRELOAD)).map(|variable| variable.value)
    }

    /// Returns the name without `.service`.
    pub(crate) fn stem(&self) -> &str {
        self.name.strip_suffix(".service").unwrap_or(&self.name)
    }

    /// Returns the name of the unit that tries what the server is to preload.
    pub(crate) fn trial_unit(&self) -> String {
        TRIAL.replace('@', &format!("@{}", self.stem()))
    }

    /// Returns the file with the result of its trial: variables for the server, or the reason for none as a
    /// comment.
    pub(crate) fn trial(&self) -> PathBuf {
        Path::new(TRIALS).join(format!("{}.env", self.stem()))
    }

    /// Returns the server's program and its arguments.
    pub(crate) fn command(&self) -> Option<Vec<OsString>> {
        let environment = self.environment();
        let command = self.settings("ExecStart").find_map(|setting| {
            let words = words(setting.value.trim_start_matches(['@', '-', ':', '+', '!']));
            // The script of a shell is a single word.
            let scripts = words.iter().filter(|word| word.contains(' ')).map(|script| self::words(script));
            std::iter::once(words.clone()).chain(scripts).find_map(|words| {
                let at = words.iter().rposition(|word| is_program(word))?;
                Some(words[at..].to_vec())
            })
        })?;
        let expanded = command.into_iter().flat_map(|word| match word.strip_prefix('$') {
            Some(name) => {
                let name = name.trim_matches(['{', '}']);
                environment.get(name).map(|variable| words(&variable.value)).unwrap_or_default()
            }
            None => vec![word],
        });
        Some(expanded.map(OsString::from).collect())
    }
}

fn is_program(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default();
    word.starts_with('/') && PROGRAMS.contains(&name)
}

/// Splits `name@instance.service` into template and instance.
fn instance(name: &str) -> Option<(String, &str)> {
    let (begin, rest) = name.split_once('@')?;
    let (instance, kind) = rest.rsplit_once('.')?;
    (!instance.is_empty()).then(|| (format!("{begin}@.{kind}"), instance))
}

/// Returns the template's name with the instance inserted; any other name unchanged.
fn instantiated(name: &str, instance: Option<&str>) -> String {
    match (name.split_once("@."), instance) {
        (Some((begin, kind)), Some(instance)) => format!("{begin}@{instance}.{kind}"),
        _ => name.to_owned(),
    }
}

/// Returns the possible paths of a unit's file: those of the instance before those of its template.
fn places(name: &str) -> impl Iterator<Item = PathBuf> {
    let names = [Some(name.to_owned()), instance(name).map(|(template, _)| template)];
    names.into_iter().flatten().flat_map(|name| FOLDERS.map(|folder| Path::new(folder).join(&name)))
}

/// Returns the real name of a unit, which differs if this is an alias.
fn real_name(root: &Root, name: String) -> String {
    let names = std::iter::successors(Some(name.clone()), |name| meant(root, name));
    names.take(MOST_LINKS).last().unwrap_or(name)
}

/// Returns the name that an alias stands for: the alias is a link to the file of a unit with another name. A
/// link out of the folders of units only shows where the file is.
fn meant(root: &Root, name: &str) -> Option<String> {
    let place = places(name).find(|path| link(root, path).symlink_metadata().is_ok())?;
    let target = place.parent()?.join(fs::read_link(link(root, &place)).ok()?);
    let number = |folder: &Path| fs::metadata(root.at(folder)).map(|it| (it.dev(), it.ino())).ok();
    let folder = number(target.parent()?)?;
    let is_unit_s = FOLDERS.into_iter().any(|known| number(Path::new(known)) == Some(folder));
    let meant = instantiated(target.file_name()?.to_str()?, instance(name).map(|(_, instance)| instance));
    (is_unit_s && meant != name && meant.ends_with(".service")).then_some(meant)
}

/// Returns all other names of a unit.
fn aliases(root: &Root, name: &str) -> Vec<String> {
    let instance = instance(name).map(|(_, instance)| instance);
    let entries =
        FOLDERS.iter().flat_map(|folder| fs::read_dir(root.at(Path::new(folder)))).flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_symlink()));
    let names = links.map(|link| instantiated(&link.file_name().to_string_lossy(), instance));
    let mut names: Vec<String> =
        names.filter(|other| other != name && real_name(root, other.clone()) == name).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the path of a file, or of the link there.
pub(crate) fn link(root: &Root, path: &Path) -> PathBuf {
    root.at(path.parent().unwrap_or(path)).join(path.file_name().unwrap_or_default())
}

fn is_masked(root: &Root, path: &Path) -> bool {
    fs::read_link(link(root, path)).is_ok_and(|target| target == Path::new("/dev/null"))
}

fn listed(root: &Root, folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.at(folder)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Returns the instances that the administrator wants to be started, or has configured.
fn wanted(root: &Root, folder: &Path) -> Vec<String> {
    let names = listed(root, folder);
    let told =
        names.iter().filter_map(|name| name.strip_suffix(".d")).filter(|name| instance(name).is_some());
    let links = names.iter().filter(|name| name.ends_with(".wants") || name.ends_with(".requires"));
    let linked = links.flat_map(|name| listed(root, &folder.join(name)));
    let mut wanted: Vec<String> = told.map(str::to_owned).collect();
    wanted.extend(linked.filter(|name| instance(name).is_some()));
    wanted.retain(|name| name.ends_with(".service"));
    wanted
}

/// Returns the drop-ins of a unit, sorted by name: of equal names the first folder's wins, and an empty one
/// removes it. The unit's drop-ins precede those of an alias, and these precede those of all services.
fn drop_ins(root: &Root, name: &str) -> Vec<PathBuf> {
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    let names = [name.to_owned()].into_iter().chain(aliases(root, name)).chain(["service".to_owned()]);
    for name in names {
        let names = [Some(name.clone()), instance(&name).map(|(template, _)| template)];
        let folders =
            FOLDERS.map(|folder| names.iter().flatten().map(move |name| format!("{folder}/{name}.d")));
        for folder in folders.into_iter().flatten().map(PathBuf::from) {
            for file in listed(root, &folder).into_iter().filter(|file| file.ends_with(".conf")) {
                let path = folder.join(&file);
                found.entry(file).or_insert(path);
            }
        }
    }
    found.into_values().filter(|path| !is_masked(root, path)).collect()
}

/// Parses the settings of `[Service]`, with specifiers for the unit's name replaced.
fn settings(text: &str, file: &Path, name: &str, instance: &str) -> Vec<UnitSetting> {
    let mut settings = vec![];
    let mut section = String::new();
    let mut pending = String::new();
    for line in text.lines() {
        let begins = pending.is_empty();
        let line = line.trim();
        // Also between the parts of a continued line.
        if line.starts_with(['#', ';']) || (begins && line.is_empty()) {
            continue;
        }
        if let Some(part) = line.strip_suffix('\\') {
            pending.push_str(part);
            pending.push(' ');
            continue;
        }
        let line = std::mem::take(&mut pending) + line;
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((key, value)) = line.split_once('=')
            && section == "Service"
        {
            let value = value.trim().replace("%i", instance).replace("%I", instance).replace("%n", name);
            settings.push(UnitSetting { key: key.trim().to_owned(), value, file: file.to_owned() });
        }
    }
    settings
}

/// Splits words as systemd and shells do: at spaces outside quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (_, Some(open)) if c == open => quote = None,
            (_, None) if c.is_whitespace() => words.extend(word.take()),
            ('\\', _) => word.get_or_insert_default().extend(rest.next()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// Makes a root with these files.
    fn tree(files: &[(&str, &str)]) -> (TempDir, Root) {
        let folder = tempfile::tempdir().expect("folder");
        for (path, text) in files {
            let path = folder.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
            match text.strip_prefix("-> ") {
                Some(target) => symlink(target, path).expect("link"),
                None => fs::write(path, text).expect("file"),
            }
        }
        let root = Root::new(folder.path());
        (folder, root)
    }

    #[test]
    fn words_are_parted_as_systemd_does() {
        assert_eq!(words(r#"a 'b c' d"e f"g \"h"#), ["a", "b c", "de fg", "\"h"]);
        assert_eq!(words("  'A=--x=.y' ''"), ["A=--x=.y", ""]);
    }

    #[test]
    fn servers_are_found_once_and_nothing_else_is() {
        let server = "[Service]\nExecStart=/usr/sbin/mariadbd $MYSQLD_OPTS\n";
        let (_folder, root) = tree(&[
            ("/lib/systemd/system/mariadb.service", server),
            ("/lib/systemd/system/mariadb@.service", server),
            ("/lib/systemd/system/mariadb@bootstrap.service.d/use_galera_new_cluster.conf", "[Service]\n"),
            ("/lib/systemd/system/cron.service", "[Service]\nExecStart=/usr/sbin/cron -f\n"),
            ("/etc/systemd/system/mysql.service", "-> /lib/systemd/system/mariadb.service"),
            (
                "/etc/systemd/system/multi-user.target.wants/mariadb@a.service",
                "-> /lib/systemd/system/mariadb@.service",
            ),
            ("/etc/systemd/system/mariadb@b.service.d/x.conf", "[Service]\n"),
            ("/lib/systemd/system/old.service", server),
            ("/etc/systemd/system/old.service", "-> /dev/null"),
        ]);
        let names: Vec<String> = SystemdUnit::all(&root).into_iter().map(|unit| unit.name).collect();
        assert_eq!(names, ["mariadb.service", "mariadb@a.service", "mariadb@b.service"]);
    }

    #[test]
    fn drop_ins_come_by_name_and_take_back_what_was_said() {
        let (_folder, root) = tree(&[
            ("/lib/systemd/system/m@.service", "[Service]\nEnvironment='A=--group=.%I' B=1\nUser=mysql\n"),
            ("/lib/systemd/system/m@.service.d/20.conf", "[Service]\nEnvironment=B=2\nUser=other\n"),
            (
                "/etc/systemd/system/m@a.service.d/10.conf",
                "[Service]\n# no\nEnvironment=B=3\nEnvironmentFile=-/etc/vars\n",
            ),
            ("/etc/systemd/system/m@a.service.d/30.conf", "[Service]\nUnsetEnvironment=C\n[Unit]\nUser=x\n"),
            ("/etc/vars", "# comment\nC=1\nD=\"x y\"\n"),
        ]);
        let unit = SystemdUnit::read(&root, "m@a").expect("a unit");
        let environment = unit.environment();
        let shown: Vec<String> =
            environment.iter().map(|(name, it)| format!("{name}={}", it.value)).collect();
        assert_eq!(shown, ["A=--group=.a", "B=2", "D=x y"]);
        assert_eq!(environment["B"].file, Path::new("/lib/systemd/system/m@.service.d/20.conf"));
        assert!(environment["D"].named_in.is_some() && environment["B"].named_in.is_none());
        assert_eq!(unit.setting("User").expect("set").value, "other");
    }

    #[test]
    fn an_alias_is_its_unit_and_drop_ins_for_either_count() {
        let (_folder, root) = tree(&[
            ("/lib/systemd/system/m.service", "[Service]\nEnvironment=A=1\n"),
            ("/lib/systemd/system/mysql.service", "-> m.service"),
            ("/etc/systemd/system/mysqld.service", "-> ../../../lib/systemd/system/mysql.service"),
            ("/etc/systemd/system/mysqld.service.d/20.conf", "[Service]\nEnvironment=B=alias\n"),
            ("/etc/systemd/system/mysql.service.d/10.conf", "[Service]\nEnvironment=A=alias C=alias\n"),
            ("/lib/systemd/system/m.service.d/20.conf", "[Service]\nEnvironment=B=own\n"),
            ("/lib/systemd/system/service.d/30.conf", "[Service]\nEnvironment=C=all\n"),
            ("/etc/systemd/system/other.service.d/40.conf", "[Service]\nEnvironment=C=other\n"),
        ]);
        for name in ["m", "mysql", "mysqld.service"] {
            let unit = SystemdUnit::read(&root, name).expect("a unit");
            let environment = unit.environment();
            let values = ["A", "B", "C"].map(|name| environment[name].value.as_str());
            assert_eq!((unit.name.as_str(), values), ("m.service", ["alias", "own", "all"]));
        }
    }

    #[test]
    fn instances_have_aliases_and_a_file_elsewhere_is_the_link_s_own() {
        let server = "[Service]\nExecStart=/usr/sbin/mariadbd\n";
        let (_folder, root) = tree(&[
            ("/lib/systemd/system/m@.service", server),
            ("/lib/systemd/system/n@.service", "-> m@.service"),
            ("/etc/systemd/system/db.service", "-> /lib/systemd/system/m@b.service"),
            ("/etc/systemd/system/n@a.service.d/x.conf", "[Service]\nEnvironment=A=1\n"),
            ("/opt/mariadb.service", server),
            ("/etc/systemd/system/own.service", "-> /opt/mariadb.service"),
            ("/etc/systemd/system/round.service", "-> round.service"),
            ("/etc/systemd/system/gone.service", "-> /lib/systemd/system/old.service"),
            ("/etc/systemd/system/old.service", "-> /dev/null"),
        ]);
        let unit = SystemdUnit::read(&root, "n@a").expect("a unit");
        assert_eq!((unit.name.as_str(), unit.environment().len()), ("m@a.service", 1));
        let names: Vec<String> = SystemdUnit::all(&root).into_iter().map(|unit| unit.name).collect();
        assert_eq!(names, ["m@a.service", "m@b.service", "own.service"]);
        assert!(SystemdUnit::read(&root, "round").is_none() && SystemdUnit::read(&root, "gone").is_none());
    }

    #[test]
    fn the_server_s_arguments_are_found_in_a_shell_s_script() {
        let text = "[Service]\nExecStart=/bin/sh -c \"set -f; VAR=`/usr/bin/galera_recovery`; \\\n exec /usr/sbin/mariadbd $MYSQLD_OPTS $VAR --a=b\"\n\
                    Environment=\"MYSQLD_OPTS=--user=mysql --port=1\"\n";
        let (_folder, root) = tree(&[("/lib/systemd/system/m.service", text)]);
        let command = SystemdUnit::read(&root, "m.service").expect("a unit").command();
        assert_eq!(command.expect("a server"), ["/usr/sbin/mariadbd", "--user=mysql", "--port=1", "--a=b"]);
    }
}
