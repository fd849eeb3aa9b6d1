//! Checks of the provider's file: whether the loader can load it into the server, and whether it should.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::User;

use super::Finding;
use super::owner::Guarded;
use crate::program::elf::{self, Elf};
use crate::server::{FoundServer, PRELOAD, WITHOUT, rights};

/// Paths of the provider and this program in the package.
const PROVIDER: &str = "/usr/lib/tare/libtare_mariadb.so";
const PROGRAM: &str = "/usr/bin/tare";
/// Name of the C library for the loader.
const LIBC: &str = "libc.so.6";
/// Folders of the C library.
const LIBC_FOLDERS: [&str; 4] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64"];
/// Advice for an invalid file.
const ANEW: &str = "install tare's package, or its file, anew, and restart";
/// Consequence of a file that crashes the loader.
const DEADLY: &str = "; a server that loads it does not start";

pub(super) fn check(server: &FoundServer) -> Vec<Finding> {
    let Some(path) = server.provider() else { return vec![] };
    let mut findings = check_file(&path, server);
    let untried = findings.iter_mut().filter(|it| it.what.ends_with(DEADLY) && !server.is_tried());
    untried.for_each(|it| {
        it.remedy +=
            " (tare uninstall, or LD_PRELOAD taken out where it is set, lets the server start without it)"
    });
    if findings.is_empty() { check_trial(server).into_iter().collect() } else { findings }
}

/// Returns the result of the trial before the last start, where the file itself shows no problem.
fn check_trial(server: &FoundServer) -> Option<Finding> {
    let trial = server.root.at(&server.unit.as_ref()?.trial());
    let said = fs::read_to_string(trial).ok()?;
    let what = said.strip_prefix(WITHOUT)?.trim_end();
    let remedy = format!("restart the server if that is fixed by now; else {ANEW}");
    Some(Finding::problem("provider", format!("the trial before the last start said: {what}"), remedy))
}

/// Returns the C library that the server uses, or would use.
fn libc(server: &FoundServer) -> Option<PathBuf> {
    let mapped = server.process.iter().flat_map(|process| &process.mapped).map(PathBuf::from);
    let mapped = mapped.filter(|path| path.ends_with(LIBC));
    let folders = LIBC_FOLDERS.iter().map(|folder| Path::new(folder).join(LIBC));
    mapped.chain(folders).map(|path| server.root.at(&path)).find(|path| path.is_file())
}

/// Checks a file that the server is to preload.
pub(super) fn check_file(path: &Path, server: &FoundServer) -> Vec<Finding> {
    let problem = |what: String, remedy: &str| Finding::problem("provider", what, remedy);
    let shown = path.display();
    let place = server.root.at(path);
    match fs::metadata(&place) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return vec![problem(format!("{shown} is no file"), ANEW)],
        Err(error) => return vec![problem(format!("{PRELOAD} names {shown}: {error}"), ANEW)],
    }
    let user = server.user();
    // A unit runs some of its commands as root, with the same environment.
    let own = user.as_ref().filter(|_| server.unit.is_none()).map(|user| user.uid.as_raw());
    let can = "can put code of theirs into the server";
    let mut findings = Guarded { check: "provider", path, own, can, place: PROVIDER }.look(&server.root);
    if let Some(user) = &user
        && let Some(barred) = barred(&place, user)
    {
        let what =
            format!("the server's account {} cannot read {shown}: {} bars it", user.name, barred.display());
        findings.push(problem(what, "put the file where every account may read it, such as /usr/lib/tare"));
    }
    if statvfs(&place).is_ok_and(|system| system.flags().contains(FsFlags::ST_NOEXEC)) {
        let what = format!("{shown} is on a file system mounted noexec: the loader takes nothing from there");
        findings.push(problem(what, "put the file elsewhere, such as /usr/lib/tare"));
    }
    match Elf::read(&place) {
        Ok(file) => findings.extend(check_needs(path, &file, libc(server))),
        Err(error) => {
            // The loader skips a file that is no library, and crashes on a truncated one.
            let dies = matches!(&error, elf::Error::CutOff { loaded: true, .. });
            let end = if dies { DEADLY } else { "" };
            findings.push(problem(format!("the provider cannot be loaded: {error}{end}"), ANEW));
        }
    }
    findings
}

/// Checks the program that root runs before each start of the server.
pub(super) fn check_trial_program(path: &Path, server: &FoundServer) -> Vec<Finding> {
    let can = "can have root run code of theirs before each start of the server";
    Guarded { check: "trial", path, own: None, can, place: PROGRAM }.look(&server.root)
}

/// Returns the first of a path's folders, or the file itself, that the account may not enter or read.
fn barred(path: &Path, user: &User) -> Option<PathBuf> {
    let may =
        |path: &Path, bit: u32| fs::metadata(path).is_ok_and(|metadata| rights(&metadata, user) & bit != 0);
    let folders = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let folder = folders.filter(|folder| !may(folder, 1)).last().map(Path::to_owned);
    folder.or_else(|| (!may(path, 4)).then(|| path.to_owned()))
}

/// Checks that the C library has the versions that the file needs.
fn check_needs(path: &Path, file: &Elf, libc: Option<PathBuf>) -> Vec<Finding> {
    let unseen =
        |what: String| vec![Finding::unseen("provider", what, "look at the server's own file system")];
    let Some(libc) = libc else { return unseen(format!("the server's {LIBC} was not found")) };
    let (needs, has) = match (file.needs(), Elf::read(&libc).and_then(|libc| libc.has())) {
        (Ok(needs), Ok(has)) => (needs, has),
        (Err(error), _) | (_, Err(error)) => return unseen(error.to_string()),
    };
    let missing = needs.iter().filter(|need| need.library == LIBC && !has.contains(&need.version));
    let newest =
        |versions: &mut dyn Iterator<Item = &str>| versions.max_by_key(|it| number(it)).map(str::to_owned);
    let Some(missing) = newest(&mut missing.map(|need| need.version.as_str())) else { return vec![] };
    // The library's own name is among them.
    let mut versions = has.iter().map(String::as_str).filter(|version| version.starts_with("GLIBC_"));
    let newest = newest(&mut versions).unwrap_or_default();
    let what = format!(
        "{} needs {missing} of the C library, which has no more than {newest}{DEADLY}",
        path.display()
    );
    let remedy = "take a tare built on this system, or on an older one";
    vec![Finding::problem("provider", what, remedy)]
}

/// Returns the sort key of a version: 2.4 comes before 2.36.
fn number(version: &str) -> Vec<u32> {
    let digits = version.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.split('.').filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        assert!(number("GLIBC_2.4") < number("GLIBC_2.36"));
        assert!(number("GLIBC_PRIVATE") < number("GLIBC_2.2.5"));
    }
}
