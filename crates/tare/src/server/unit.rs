//! systemd's units of servers, read from their files: systemd itself is not asked, and need not run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};
use tare_mariadb::options::Root;

use super::{PRELOAD, TRIED};

/// Where `tare preload` says what came of its trials. Only root may write there: what stands there is loaded into servers.
pub(crate) const TRIALS: &str = "/run/tare";
/// The unit that tries what a server is to preload, for any server: the name of the server's without `.service` is its instance.
pub(crate) const TRIAL: &str = "tare-preload@.service";
/// Where units and their drop-ins lie; what comes first wins.
const FOLDERS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
/// The first of them that are the administrator's: what stands there names instances that are wanted.
const ADMINISTRATORS: usize = 2;
/// What a server's program is called, itself or the script that starts it.
const PROGRAMS: [&str; 4] = ["mariadbd", "mysqld", "mariadbd-safe", "mysqld_safe"];

/// `KEY=VALUE` of a unit's section `[Service]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: String,
    /// The file it stands in, as the system names it.
    pub(crate) file: PathBuf,
}

/// A variable of a unit's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) value: String,
    /// The file it is set in.
    pub(crate) file: PathBuf,
    /// The unit's file or drop-in that names `file`, where that is a file of variables: these come after all that units say.
    pub(crate) named_in: Option<PathBuf>,
}

/// A unit that starts a server.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    /// Such as `mariadb@a.service`.
    pub(crate) name: String,
    settings: Vec<Setting>,
    root: Root,
}

impl Unit {
    /// The unit of this name; `None` where there is none, or where it is masked.
    pub(crate) fn read(root: &Root, name: &str) -> Option<Unit> {
        let name = if name.contains('.') { name.to_owned() } else { format!("{name}.service") };
        let instance = instance(&name).map(|(template, instance)| (template, instance.to_owned()));
        let names =
            || std::iter::once(name.clone()).chain(instance.as_ref().map(|(template, _)| template.clone()));
        let found = names().flat_map(|name| FOLDERS.map(|folder| Path::new(folder).join(&name)));
        let main = found.into_iter().find(|path| root.at(path).is_file() || is_masked(root, path))?;
        if is_masked(root, &main) {
            return None;
        }
        let mut unit = Unit { name: name.clone(), settings: vec![], root: root.clone() };
        let instance = instance.as_ref().map(|(_, instance)| instance.clone()).unwrap_or_default();
        let drop_ins = drop_ins(root, &names().collect::<Vec<_>>());
        for file in std::iter::once(main).chain(drop_ins) {
            let text = fs::read(root.at(&file)).unwrap_or_default();
            unit.settings.extend(settings(&String::from_utf8_lossy(&text), &file, &name, &instance));
        }
        Some(unit)
    }

    /// Every unit that starts a server, by name.
    pub(crate) fn all(root: &Root) -> Vec<Unit> {
        let mut names: Vec<String> =
            FOLDERS.iter().flat_map(|folder| listed(root, Path::new(folder))).collect();
        names.retain(|name| name.ends_with(".service"));
        let wanted = FOLDERS[..ADMINISTRATORS].iter().flat_map(|folder| wanted(root, Path::new(folder)));
        names.extend(wanted);
        names.sort();
        names.dedup();
        names.retain(|name| !name.contains("@.") && !is_alias(root, name));
        let units = names.iter().filter_map(|name| Unit::read(root, name));
        units.filter(|unit| unit.command().is_some()).collect()
    }

    /// The setting that counts, where there is one of a kind.
    pub(crate) fn setting(&self, key: &str) -> Option<&Setting> {
        self.settings
            .iter()
            .rev()
            .find(|setting| setting.key == key)
            .filter(|setting| !setting.value.is_empty())
    }

    /// Settings that add up; an empty one takes back what came before.
    fn settings<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Setting> {
        let of_key = || self.settings.iter().filter(move |setting| setting.key == key);
        let kept = of_key().rev().take_while(|setting| !setting.value.is_empty()).count();
        of_key().skip(of_key().count() - kept)
    }

    /// The setting, where it says yes.
    pub(crate) fn switched_on(&self, key: &str) -> Option<&Setting> {
        let yes = |setting: &&Setting| {
            ["yes", "true", "on", "1"].iter().any(|yes| setting.value.eq_ignore_ascii_case(yes))
        };
        self.setting(key).filter(yes)
    }

    /// The environment the unit's programs start with.
    pub(crate) fn environment(&self) -> BTreeMap<String, Variable> {
        self.environment_without(Path::new(""))
    }

    /// The same, as if there were no such file of the unit's.
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

    /// The setting that takes a variable out of the environment again.
    pub(crate) fn unset(&self, name: &str) -> Option<&Setting> {
        self.settings("UnsetEnvironment")
            .find(|setting| words(&setting.value).iter().any(|word| word == name))
    }

    /// The account it gives its server; `None` where it names none that is known here.
    pub(crate) fn user(&self) -> Option<User> {
        let name = &self.setting("User")?.value;
        let by_number = || User::from_uid(Uid::from_raw(name.parse().ok()?)).ok()?;
        User::from_name(name).ok()?.or_else(by_number)
    }

    /// What the server is to preload at its next start, if all goes well.
    pub(crate) fn preload(&self) -> Option<String> {
        let mut environment = self.environment();
        environment.remove(TRIED).or_else(|| environment.remove(PRELOAD)).map(|variable| variable.value)
    }

    /// The name, without the part that all units of servers end with.
    pub(crate) fn stem(&self) -> &str {
        self.name.strip_suffix(".service").unwrap_or(&self.name)
    }

    /// The unit that tries what the server is to preload.
    pub(crate) fn trial_unit(&self) -> String {
        TRIAL.replace('@', &format!("@{}", self.stem()))
    }

    /// Where `tare preload` says what came of its trial: as variables for the server, or as a comment why there are none.
    pub(crate) fn trial(&self) -> PathBuf {
        Path::new(TRIALS).join(format!("{}.env", self.stem()))
    }

    /// The server's program and its arguments.
    pub(crate) fn command(&self) -> Option<Vec<OsString>> {
        let environment = self.environment();
        let command = self.settings("ExecStart").find_map(|setting| {
            let words = words(setting.value.trim_start_matches(['@', '-', ':', '+', '!']));
            // A shell's script is a word of its own.
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

/// Template and instance of `name@instance.service`.
fn instance(name: &str) -> Option<(String, &str)> {
    let (begin, rest) = name.split_once('@')?;
    let (instance, kind) = rest.rsplit_once('.')?;
    (!instance.is_empty()).then(|| (format!("{begin}@.{kind}"), instance))
}

/// Whether a unit is only another name of one: a link to a file that is called otherwise.
fn is_alias(root: &Root, name: &str) -> bool {
    let mut places = FOLDERS.iter().map(|folder| root.at(Path::new(folder)).join(name));
    let Some(target) = places.find_map(|place| fs::read_link(place).ok()) else { return false };
    let target = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    target != name
        && target.ends_with(".service")
        && instance(name).is_none_or(|(template, _)| template != target)
}

fn is_masked(root: &Root, path: &Path) -> bool {
    let link = root.at(path.parent().unwrap_or(path)).join(path.file_name().unwrap_or_default());
    fs::read_link(link).is_ok_and(|target| target == Path::new("/dev/null"))
}

fn listed(root: &Root, folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.at(folder)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Instances that the administrator wants started, or has said something of.
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

/// The drop-ins of units of these names, the most special first: sorted by name; of two of one name the first folder's
/// counts, and an empty one takes it back.
fn drop_ins(root: &Root, names: &[String]) -> Vec<PathBuf> {
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    for folder in FOLDERS {
        for name in names {
            let folder = Path::new(folder).join(format!("{name}.d"));
            for file in listed(root, &folder).into_iter().filter(|file| file.ends_with(".conf")) {
                let path = folder.join(&file);
                found.entry(file).or_insert(path);
            }
        }
    }
    found.into_values().filter(|path| !is_masked(root, path)).collect()
}

/// The settings of `[Service]`, with what stands for the unit's name put in.
fn settings(text: &str, file: &Path, name: &str, instance: &str) -> Vec<Setting> {
    let mut settings = vec![];
    let mut section = String::new();
    let mut pending = String::new();
    for line in text.lines() {
        let begins = pending.is_empty();
        let line = line.trim();
        // Also between the parts of a line that is continued.
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
            settings.push(Setting { key: key.trim().to_owned(), value, file: file.to_owned() });
        }
    }
    settings
}

/// Words as systemd and shells part them: by spaces, but for those in quotes.
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

    /// A root with these files.
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
        let names: Vec<String> = Unit::all(&root).into_iter().map(|unit| unit.name).collect();
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
        let unit = Unit::read(&root, "m@a").expect("a unit");
        let environment = unit.environment();
        let shown: Vec<String> =
            environment.iter().map(|(name, it)| format!("{name}={}", it.value)).collect();
        assert_eq!(shown, ["A=--group=.a", "B=2", "D=x y"]);
        assert_eq!(environment["B"].file, Path::new("/lib/systemd/system/m@.service.d/20.conf"));
        assert!(environment["D"].named_in.is_some() && environment["B"].named_in.is_none());
        assert_eq!(unit.setting("User").expect("set").value, "other");
    }

    #[test]
    fn the_server_s_arguments_are_found_in_a_shell_s_script() {
        let text = "[Service]\nExecStart=/bin/sh -c \"set -f; VAR=`/usr/bin/galera_recovery`; \\\n exec /usr/sbin/mariadbd $MYSQLD_OPTS $VAR --a=b\"\n\
                    Environment=\"MYSQLD_OPTS=--user=mysql --port=1\"\n";
        let (_folder, root) = tree(&[("/lib/systemd/system/m.service", text)]);
        let command = Unit::read(&root, "m.service").expect("a unit").command();
        assert_eq!(command.expect("a server"), ["/usr/sbin/mariadbd", "--user=mysql", "--port=1", "--a=b"]);
    }
}
