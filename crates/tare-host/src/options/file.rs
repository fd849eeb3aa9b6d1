//! The server's option files, read as the server reads them.
//!
//! If the server itself rejects something (a malformed group, an option before the first group), it exits
//! before it asks for a provider; here such a line is skipped.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tare_words::option_line::{self, is_space};

use super::error::OptionOrigin;
use super::root::Root;

/// The directories of option files compiled into the supported servers.
const DIRECTORIES: [&str; 2] = ["/etc", "/etc/mysql"];
/// The deepest nesting of `!include`.
const DEEPEST_INCLUDE: usize = 10;

/// One option of a file, of the environment or of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenOption {
    /// The group the option is in.
    pub group: String,
    /// The key as written.
    pub key: String,
    /// The unquoted value; `None` if there is no `=`.
    pub value: Option<String>,
    /// The place where the option was given.
    pub origin: OptionOrigin,
}

/// The options of all files that a server reads, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionFiles {
    entries: Vec<GivenOption>,
    group_suffix: Option<String>,
    /// The server's HOME.
    home: Option<OsString>,
    root: Root,
    left: Vec<PathBuf>,
    read: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    are_refused: bool,
}

/// The arguments that choose the files; they come before all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OptionFileArguments {
    none: bool,
    only: Option<PathBuf>,
    extra: Option<PathBuf>,
    group_suffix: Option<String>,
}

impl OptionFiles {
    /// Reads the files of a server started with `arguments` (the program's name first) in the environment of
    /// this process.
    pub fn of_server(arguments: &[OsString]) -> OptionFiles {
        OptionFiles::under(&Root::default(), arguments, &|name| std::env::var_os(name))
    }

    /// Reads the files of a server started with `arguments` and this environment, with `root` as its `/`.
    pub fn under(
        root: &Root,
        arguments: &[OsString],
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> OptionFiles {
        let choice = OptionFileArguments::of(arguments);
        let group_suffix = choice.group_suffix.clone().or_else(|| {
            let suffix = environment("MARIADB_GROUP_SUFFIX").or_else(|| environment("MYSQL_GROUP_SUFFIX"))?;
            Some(suffix.to_string_lossy().into_owned())
        });
        let user = environment("HOME");
        let home = user.clone();
        let mut files = OptionFiles { group_suffix, home, root: root.clone(), ..OptionFiles::default() };
        if choice.none {
            files.are_refused = true;
            return files;
        }
        if let Some(only) = &choice.only {
            files.read(only, 0);
            return files;
        }
        let home = environment("MARIADB_HOME").or_else(|| environment("MYSQL_HOME"));
        for path in default_files(home, choice.extra, user) {
            files.read(&path, 0);
        }
        files
    }

    /// Returns the entries of the named groups, and of the same groups with the suffix given to the server.
    pub fn in_groups(&self, groups: &[&str]) -> impl Iterator<Item = &GivenOption> {
        let suffix = self.group_suffix.as_deref().unwrap_or_default();
        self.entries.iter().filter(move |entry| {
            groups.iter().any(|group| {
                let with_suffix = || entry.group.get(..group.len()).zip(entry.group.get(group.len()..));
                entry.group.eq_ignore_ascii_case(group)
                    || with_suffix().is_some_and(|(name, rest)| {
                        name.eq_ignore_ascii_case(group) && rest.eq_ignore_ascii_case(suffix)
                    })
            })
        })
    }

    /// Returns the files that were left to the server because they are not regular files.
    pub fn left(&self) -> &[PathBuf] {
        &self.left
    }

    /// Returns the files that were read, in the server's order.
    pub fn read_files(&self) -> &[PathBuf] {
        &self.read
    }

    /// Returns the folders that `!includedir` names, in order. Files added there later are read by the next
    /// start, too.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Returns whether the server reads no files: `--no-defaults`.
    pub fn are_refused(&self) -> bool {
        self.are_refused
    }

    /// Reads one file; a file that does not exist or cannot be read is skipped, as by the server.
    fn read(&mut self, path: &Path, depth: usize) {
        let path = self.expanded(path);
        let place = self.root.at(&path);
        let Ok(metadata) = place.metadata() else { return };
        // A pipe can be read only once, which is left to the server.
        if !metadata.is_file() {
            self.left.push(path);
            return;
        }
        // Anybody could have written the file, so the server ignores it.
        if metadata.mode() & 0o002 != 0 {
            return;
        }
        let Ok(content) = std::fs::read(place) else { return };
        self.read.push(path.clone());
        let content = String::from_utf8_lossy(&content);
        let mut group: Option<String> = None;
        for (position, line) in content.lines().enumerate() {
            let line = line.trim_start_matches(is_space);
            let origin = OptionOrigin::File { path: path.clone(), line: position + 1 };
            if let Some(directive) = line.strip_prefix('!') {
                self.include(directive, depth);
            } else if let Some(name) = line.strip_prefix('[') {
                group = name.split_once(']').map(|(name, _)| name.trim_end_matches(is_space).to_owned());
            } else if let Some(group) = &group
                && let Some(entry) = GivenOption::parse(group, line, origin)
            {
                self.entries.push(entry);
            }
        }
    }

    /// Expands `~/` at the beginning of a file's name to HOME, if that is set, like the server. (It does not
    /// do so for a folder.)
    fn expanded(&self, path: &Path) -> PathBuf {
        let below_home = path.as_os_str().as_bytes().strip_prefix(b"~").filter(|rest| rest.starts_with(b"/"));
        let (Some(below_home), Some(home)) = (below_home, &self.home) else { return path.to_owned() };
        let mut whole = home.clone();
        whole.push(OsStr::from_bytes(below_home));
        whole.into()
    }

    fn include(&mut self, directive: &str, depth: usize) {
        if depth >= DEEPEST_INCLUDE {
            return;
        }
        let Some((keyword, argument)) = directive.trim_start_matches(is_space).split_once(is_space) else {
            return;
        };
        let path = Path::new(argument.trim_matches(is_space));
        match keyword {
            "include" => self.read(path, depth + 1),
            "includedir" => {
                if self.root.at(path).is_dir() {
                    self.folders.push(path.to_owned());
                }
                for name in configuration_files(&self.root.at(path)) {
                    self.read(&path.join(name), depth + 1);
                }
            }
            _ => {}
        }
    }
}

impl OptionFileArguments {
    fn of(arguments: &[OsString]) -> OptionFileArguments {
        let mut choice = OptionFileArguments::default();
        for argument in arguments.iter().skip(1) {
            let bytes = argument.as_bytes();
            let after = |prefix: &str| bytes.strip_prefix(prefix.as_bytes()).map(OsStr::from_bytes);
            if bytes == b"--no-defaults" {
                choice.none = true;
            } else if let Some(path) = after("--defaults-file=") {
                choice.only.get_or_insert_with(|| path.into());
            } else if let Some(path) = after("--defaults-extra-file=") {
                choice.extra.get_or_insert_with(|| path.into());
            } else if let Some(suffix) = after("--defaults-group-suffix=") {
                choice.group_suffix.get_or_insert_with(|| suffix.to_string_lossy().into_owned());
            } else if bytes != b"--print-defaults" {
                break;
            }
        }
        choice
    }
}

/// Returns the files read by default. A directory named twice counts at its last place.
fn default_files(home: Option<OsString>, extra: Option<PathBuf>, user: Option<OsString>) -> Vec<PathBuf> {
    let directories = DIRECTORIES.into_iter().map(PathBuf::from).chain(home.map(PathBuf::from));
    let mut files: Vec<PathBuf> = Vec::new();
    for file in directories.map(|directory| directory.join("my.cnf")) {
        files.retain(|earlier| *earlier != file);
        files.push(file);
    }
    files.extend(extra);
    files.extend(user.map(|user| Path::new(&user).join(".my.cnf")));
    files
}

/// Returns the names of a directory's `*.cnf` files, sorted.
fn configuration_files(directory: &Path) -> Vec<OsString> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<OsString> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    // `Path::extension` is not used because the server also accepts a file called ".cnf".
    names.retain(|name| name.as_bytes().ends_with(b".cnf"));
    names.sort();
    names
}

impl GivenOption {
    /// Parses `key` or `key=value` with the quotes, escapes and comments of option files. Returns `None` if
    /// the line has no option.
    pub fn parse(group: &str, line: &str, origin: OptionOrigin) -> Option<GivenOption> {
        let (key, value) = option_line::parse(line)?;
        Some(GivenOption { group: group.to_owned(), key: key.to_owned(), value, origin })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{self, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    fn read(path: &Path) -> Vec<(String, Option<String>)> {
        let only = OsString::from(format!("--defaults-file={}", path.display()));
        let files = OptionFiles::of_server(&["mariadbd".into(), only]);
        files.in_groups(&["tare"]).map(|entry| (entry.key.clone(), entry.value.clone())).collect()
    }

    fn option(key: &str, value: &str) -> (String, Option<String>) {
        (key.to_owned(), Some(value.to_owned()))
    }

    #[test]
    fn groups_includes_and_directories_are_followed_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        write("d/2.cnf", "[tare]\nd2=1\n");
        write("d/1.cnf", "[tare]\nd1=1\n[mysqld]\nother=1\n");
        write("d/3.ini", "[tare]\nnot-a-cnf=1\n");
        write("one.cnf", "[TARE]\none=1\n");
        let at = dir.path().display();
        let text = format!(
            "before=1\n[mysqld]\nx=1\n[ tare]\nother=1\n[tare ]\nfirst=1\n!include {at}/one.cnf\n\
             ! includedir  {at}/d \nlast=1\n[tare2]\ny=1\n!include {at}/absent.cnf\n"
        );
        write("my.cnf", &text);
        let keys: Vec<String> = read(&dir.path().join("my.cnf")).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["first", "one", "d1", "d2", "last"]);
    }

    #[test]
    fn an_include_of_itself_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my.cnf");
        fs::write(&path, format!("[tare]\na=1\n!include {}\n", path.display())).unwrap();
        assert_eq!(read(&path).len(), DEEPEST_INCLUDE + 1);
    }

    #[test]
    fn a_tilde_is_the_servers_home() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        fs::create_dir(dir.path().join("h")).unwrap();
        write("h/my.cnf", "[tare]\na=1\n!include ~/more.cnf\n!include ~other/more.cnf\n");
        write("h/more.cnf", "[tare]\nb=1\n");
        let read = |argument: &str, home: Option<&str>| {
            let environment = |name: &str| home.filter(|_| name == "HOME").map(OsString::from);
            let files = OptionFiles::under(&root, &["m".into(), argument.into()], &environment);
            let origins = files.in_groups(&["tare"]).map(|entry| entry.origin.to_string());
            origins.collect::<Vec<String>>().join("; ")
        };
        let both = "/h/my.cnf, line 2; /h/more.cnf, line 2";
        assert_eq!(read("--defaults-file=~/my.cnf", Some("/h")), both);
        assert_eq!(read("--defaults-extra-file=~/more.cnf", Some("/h")), "/h/more.cnf, line 2");
        assert_eq!(read("--defaults-file=~/my.cnf", None), "", "no HOME");
        assert_eq!(read("--defaults-file=~h/my.cnf", Some("/")), "", "somebody else's");
        assert_eq!(read("--defaults-file=~//more.cnf", Some("/h/")), "/h///more.cnf, line 2");
    }

    #[test]
    fn a_file_anybody_can_write_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my.cnf");
        fs::write(&path, "[tare]\na=1\n").unwrap();
        assert_eq!(read(&path), [option("a", "1")]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(read(&path), []);
    }

    #[test]
    fn what_a_pipe_holds_is_left_to_the_server() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"[tare]\na=1\n").unwrap();
        drop(writer);
        let pipe = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        assert_eq!(read(&pipe), []);
        assert_eq!(io::read_to_string(&mut reader).unwrap(), "[tare]\na=1\n");

        let dir = tempfile::tempdir().unwrap();
        let (fifo, file) = (dir.path().join("fifo"), dir.path().join("my.cnf"));
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        fs::write(&file, format!("[tare]\na=1\n!include {}\nb=2\n", fifo.display())).unwrap();
        let files =
            OptionFiles::of_server(&["m".into(), format!("--defaults-file={}", file.display()).into()]);
        assert_eq!(files.in_groups(&["tare"]).count(), 2);
        assert_eq!(files.left(), [fifo]);
    }

    #[test]
    fn a_link_and_a_descriptor_of_a_file_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("my.cnf"), dir.path().join("link"));
        fs::write(&file, "[tare]\na=1\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read(&link), [option("a", "1")]);
        let mut open = fs::File::open(&file).unwrap();
        assert_eq!(read(Path::new(&format!("/dev/fd/{}", open.as_raw_fd()))), [option("a", "1")]);
        assert_eq!(io::read_to_string(&mut open).unwrap(), "[tare]\na=1\n", "the server reads it, too");
    }

    #[test]
    fn the_group_suffix_adds_a_group() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my.cnf");
        fs::write(&path, "[tare]\na=1\n[tare2]\nb=1\n[tare3]\nc=1\n").unwrap();
        let only = OsString::from(format!("--defaults-file={}", path.display()));
        let files = OptionFiles::of_server(&["m".into(), only, "--defaults-group-suffix=2".into()]);
        let keys: Vec<&str> = files.in_groups(&["tare"]).map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["a", "b"]);
    }

    #[test]
    fn only_the_first_arguments_choose_files() {
        let choice = |arguments: &[&str]| {
            OptionFileArguments::of(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
        };
        assert!(choice(&["m", "--no-defaults", "--user=mysql"]).none);
        assert!(!choice(&["m", "--user=mysql", "--no-defaults"]).none);
        assert_eq!(choice(&["m", "--user=mysql", "--defaults-file=/a"]), OptionFileArguments::default());
        let both = choice(&["m", "--defaults-extra-file=/a", "--defaults-group-suffix=x"]);
        assert_eq!(both.extra, Some("/a".into()));
        assert_eq!(both.group_suffix, Some("x".to_owned()));
    }

    #[test]
    fn the_default_files_come_in_the_servers_order() {
        let shown = |home: Option<&str>, extra: Option<&str>| {
            let files =
                default_files(home.map(OsString::from), extra.map(PathBuf::from), Some("/root".into()));
            files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(None, None), "/etc/my.cnf /etc/mysql/my.cnf /root/.my.cnf");
        assert_eq!(shown(Some("/h"), Some("/x")), "/etc/my.cnf /etc/mysql/my.cnf /h/my.cnf /x /root/.my.cnf");
        assert_eq!(shown(Some("/etc"), None), "/etc/mysql/my.cnf /etc/my.cnf /root/.my.cnf");
    }
}
