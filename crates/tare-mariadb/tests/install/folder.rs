//! What is in the tables' files, and which files an earlier version left in a data directory: without a
//! server.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tare_mariadb::install::federated::ENDPOINT;
use tare_mariadb::install::{self, COMMENT, InstallError, TableDefinition, TableFile};
use tare_tables::{SqlType, Table};
use tempfile::TempDir;

use crate::leave;
use crate::sample::{Sample, column};

/// A data directory as a server makes it, as far as this module looks.
fn datadir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("mysql")).unwrap();
    fs::create_dir(dir.path().join("performance_schema")).unwrap();
    fs::write(dir.path().join("performance_schema/db.opt"), "default-character-set=utf8mb3\n").unwrap();
    dir
}

fn table(name: &'static str) -> Sample {
    Sample::new(name, vec![column("NAME", SqlType::VarChar(64), false)])
}

fn file(dir: &TempDir, name: &str) -> PathBuf {
    dir.path().join("performance_schema").join(name)
}

fn names(dir: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(dir.path().join("performance_schema")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn files(tables: &[&Sample]) -> Result<Vec<TableFile>, InstallError> {
    let tables: Vec<&dyn Table> = tables.iter().map(|table| *table as &dyn Table).collect();
    Ok(install::files(&tables, ENDPOINT)?.0)
}

/// A file of this table, with this connection and comment.
fn image(table: &Sample, connection: &str, comment: &str) -> Vec<u8> {
    install::write(&TableDefinition::of(table, connection, comment)).unwrap()
}

#[test]
fn what_an_earlier_version_left_is_listed_and_goes_and_nothing_else_does() {
    let dir = datadir();
    let before = names(&dir);
    let mut view = table("session_status");
    view.body = Some("SELECT 1 AS `NAME`");
    leave(dir.path(), &files(&[&table("threads"), &table("setup_consumers"), &view]).unwrap());
    fs::write(file(&dir, "accounts.tare-new"), "half a fi").unwrap();
    let listed = install::list(dir.path()).unwrap();
    let listed: Vec<(&str, &str)> =
        listed.iter().map(|it| (it.table.as_str(), it.comment.as_str())).collect();
    assert_eq!(listed, [("session_status", COMMENT), ("setup_consumers", COMMENT), ("threads", COMMENT)]);

    assert_eq!(install::remove(dir.path()).unwrap(), ["session_status", "setup_consumers", "threads"]);
    assert_eq!(names(&dir), before);
    assert_eq!(install::remove(dir.path()).unwrap(), Vec::<String>::new());
}

#[test]
fn names_are_new_each_time_and_known_to_who_made_them() {
    let (threads, users) = (table("threads"), table("users"));
    let tables: [&dyn Table; 2] = [&threads, &users];
    let name = |file: &TableFile| {
        let text = String::from_utf8_lossy(&file.content);
        let (_, rest) = text.split_once("/performance_schema/").unwrap();
        rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).collect::<String>()
    };
    let (first, names) = install::files(&tables, ENDPOINT).unwrap();
    let (second, others) = install::files(&tables, ENDPOINT).unwrap();
    let [first, second] = [first, second].map(|files| files.iter().map(&name).collect::<Vec<_>>());
    assert!(first[0].starts_with("threads-") && first[0].len() == "threads-".len() + 32, "{first:?}");
    assert!(first.iter().all(|name| !second.contains(name)));
    assert_ne!(first[0].split_once('-').unwrap().1, first[1].split_once('-').unwrap().1);
    assert_eq!(
        [&first[0], &first[1], &second[0]].map(|it| names.table(it)),
        [Some("threads"), Some("users"), None]
    );
    assert_eq!([&first[0], &second[1]].map(|it| others.table(it)), [None, Some("users")]);
}

#[test]
fn what_somebody_else_wrote_is_not_removed() {
    let dir = datadir();
    let threads = table("threads");
    let own = "mysql://tare@127.0.0.1:3306/performance_schema/threads";
    let foreign: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("garbage", b"garbage".repeat(100)),
        ("cut", image(&threads, own, COMMENT)[..200].to_vec()),
        ("view", b"TYPE=VIEW\nquery=select 1".to_vec()),
        ("other comment", image(&threads, own, "not tare")),
        ("other user", image(&threads, &own.replace("tare@", "root@"), COMMENT)),
        ("other schema", image(&threads, &own.replace("/performance_schema/", "/test/"), COMMENT)),
        ("other table", image(&threads, &own.replace("/threads", "/accounts"), COMMENT)),
    ];
    assert!(!install::foreign(dir.path(), "threads").unwrap());
    for (what, bytes) in foreign {
        fs::write(file(&dir, "threads.frm"), &bytes).unwrap();
        assert!(install::foreign(dir.path(), "threads").unwrap(), "{what}");
        assert_eq!(install::remove(dir.path()).unwrap(), Vec::<String>::new(), "{what}");
        assert_eq!(install::list(dir.path()).unwrap(), [], "{what}");
        assert_eq!(fs::read(file(&dir, "threads.frm")).unwrap(), bytes, "{what}");
    }
    // The same file with the mark is the provider's, also of a version that knew no secrets.
    fs::write(file(&dir, "threads.frm"), image(&threads, own, "tare 0.0.1")).unwrap();
    assert!(!install::foreign(dir.path(), "threads").unwrap());
    assert_eq!(install::remove(dir.path()).unwrap(), ["threads"]);
}

#[test]
fn a_link_is_not_followed() {
    let dir = datadir();
    let elsewhere = dir.path().join("elsewhere");
    fs::write(&elsewhere, &files(&[&table("threads")]).unwrap()[0].content).unwrap();
    symlink(&elsewhere, file(&dir, "threads.frm")).unwrap();
    symlink(&elsewhere, file(&dir, "accounts.tare-new")).unwrap();
    assert!(install::foreign(dir.path(), "threads").unwrap());
    assert_eq!(install::remove(dir.path()).unwrap(), Vec::<String>::new());
    assert_eq!(names(&dir), ["db.opt", "threads.frm"]);
    assert!(elsewhere.is_file());
}

#[test]
fn a_damaged_file_of_any_length_is_read_without_harm() {
    let dir = datadir();
    let whole = image(&table("threads"), "mysql://tare@127.0.0.1:1/performance_schema/threads", COMMENT);
    for length in 0..whole.len() {
        fs::write(file(&dir, "threads.frm"), &whole[..length]).unwrap();
        install::list(dir.path()).unwrap();
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xFF;
        fs::write(file(&dir, "threads.frm"), &damaged).unwrap();
        install::list(dir.path()).unwrap();
    }
}

#[test]
fn errors_say_what_is_wrong_with_the_directory() {
    let dir = datadir();
    let text = |path: &Path| install::list(path).unwrap_err().to_string();
    let missing = dir.path().join("missing");
    assert_eq!(text(&missing), format!("{} is not a directory", missing.display()));
    let file = dir.path().join("performance_schema/db.opt");
    assert_eq!(text(&file), format!("{} is not a directory", file.display()));
    let schema = dir.path().join("performance_schema");
    assert_eq!(
        text(&schema),
        format!("{} is not a data directory: it has no folder `mysql`", schema.display())
    );

    fs::remove_dir_all(&schema).unwrap();
    let error = install::remove(dir.path()).unwrap_err();
    assert!(
        matches!(error, InstallError::NotADataDirectory { missing: "performance_schema", .. }),
        "{error}"
    );
    assert!(!schema.exists(), "nothing is created");
}

#[test]
fn a_table_that_does_not_fit_is_an_error() {
    let mut keyed = Sample::new("keyed", vec![column("TEXT", SqlType::LongText, true)]);
    keyed.indexes = &[&[0]];
    assert_eq!(
        files(&[&table("threads"), &keyed]).unwrap_err().to_string(),
        "table keyed: the key TEXT can't be: a text without length, or more than 3072 bytes"
    );
    let mut commented = table("commented");
    commented.columns[0].doc = crate::sample::leak("x".repeat(1025));
    assert_eq!(
        files(&[&commented]).unwrap_err().to_string(),
        "table commented: the comment of NAME is too long"
    );
}

/// Every table the provider serves can be written, and is known again as its own.
#[test]
fn every_table_of_the_provider_fits() {
    let dir = datadir();
    let (files, _) = install::files(tare_tables::TABLES, ENDPOINT).unwrap();
    assert_eq!(files.len(), tare_tables::TABLES.len());
    leave(dir.path(), &files);
    assert_eq!(install::list(dir.path()).unwrap().len(), files.len());
}
