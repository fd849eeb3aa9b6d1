//! Whose files are whose: a data directory without a server.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tare_mariadb::install::federated::ENDPOINT;
use tare_mariadb::install::{self, COMMENT, Definition, InstallError, Report};
use tare_tables::{SqlType, Table};
use tempfile::TempDir;

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

fn put(dir: &TempDir, tables: &[&Sample]) -> Result<Report, InstallError> {
    let tables: Vec<&dyn Table> = tables.iter().map(|table| *table as &dyn Table).collect();
    install::install(dir.path(), &tables, ENDPOINT)
}

/// A file this table's installation would write, with another connection or comment.
fn image(table: &Sample, connection: &str, comment: &str) -> Vec<u8> {
    install::write(&Definition::of(table, connection, comment)).unwrap()
}

#[test]
fn installing_twice_writes_once_and_removing_leaves_the_folder_as_it_was() {
    let dir = datadir();
    let before = names(&dir);
    let (threads, consumers) = (table("threads"), table("setup_consumers"));
    let first = put(&dir, &[&threads, &consumers]).unwrap();
    assert_eq!(first.written, ["threads", "setup_consumers"]);
    assert_eq!(names(&dir), ["db.opt", "setup_consumers.frm", "threads.frm"]);
    let inode = fs::metadata(file(&dir, "threads.frm")).unwrap().ino();

    let second = put(&dir, &[&threads, &consumers]).unwrap();
    assert_eq!((second.written.len(), second.unchanged.len()), (0, 2));
    assert_eq!(fs::metadata(file(&dir, "threads.frm")).unwrap().ino(), inode);

    let listed = install::list(dir.path()).unwrap();
    let listed: Vec<(&str, &str)> =
        listed.iter().map(|it| (it.table.as_str(), it.comment.as_str())).collect();
    assert_eq!(listed, [("setup_consumers", COMMENT), ("threads", COMMENT)]);

    assert_eq!(install::remove(dir.path()).unwrap(), ["setup_consumers", "threads"]);
    assert_eq!(names(&dir), before);
    assert_eq!(install::remove(dir.path()).unwrap(), Vec::<String>::new());
}

/// The connect string of an installed table.
fn connection(dir: &TempDir, table: &str) -> String {
    let installed = install::list(dir.path()).unwrap();
    installed.into_iter().find(|it| it.table == table).unwrap().connection.unwrap()
}

#[test]
fn a_file_keeps_its_secret_and_a_new_one_gets_a_new_secret() {
    let dir = datadir();
    let (threads, consumers) = (table("threads"), table("setup_consumers"));
    put(&dir, &[&threads, &consumers]).unwrap();
    let first = connection(&dir, "threads");
    let secret = |text: &str| text.rsplit_once('-').unwrap().1.to_owned();
    assert_ne!(secret(&first), secret(&connection(&dir, "setup_consumers")));
    // Another version's definition takes the place of the file and keeps its name.
    fs::write(file(&dir, "threads.frm"), image(&threads, &first, "tare 0.0.1")).unwrap();
    assert_eq!(put(&dir, &[&threads]).unwrap().written, ["threads"]);
    assert_eq!(connection(&dir, "threads"), first);

    install::remove(dir.path()).unwrap();
    put(&dir, &[&threads]).unwrap();
    assert_ne!(connection(&dir, "threads"), first);
    // A version before secrets had none.
    let plain = first.split_once('-').unwrap().0;
    fs::write(file(&dir, "threads.frm"), image(&threads, plain, COMMENT)).unwrap();
    assert_eq!(put(&dir, &[&threads]).unwrap().written, ["threads"]);
    assert!(connection(&dir, "threads").starts_with(&format!("{plain}-")));
}

#[test]
fn the_files_tell_the_names_and_names_stay_when_files_go() {
    let dir = datadir();
    let names = install::Names::new(dir.path().into());
    let name = |connection: &str| connection.rsplit_once('/').unwrap().1.to_owned();
    assert_eq!(names.table("threads"), None);
    put(&dir, &[&table("threads"), &table("users")]).unwrap();
    let [threads, users] = ["threads", "users"].map(|it| name(&connection(&dir, it)));
    assert_eq!(names.table(&threads).as_deref(), Some("threads"));
    for stranger in [
        "threads",
        "users",
        &threads.replace("threads", "users"),
        &threads.replace("threads", "../performance_schema/threads"),
        &format!("threads-{}", "0".repeat(32)),
        &threads.to_uppercase(),
        "",
    ] {
        assert_eq!(names.table(stranger), None, "{stranger}");
    }
    // A server that has the tables open goes on asking by the names it knows.
    names.learn().unwrap();
    install::remove(dir.path()).unwrap();
    assert_eq!(names.table(&users).as_deref(), Some("users"));
    put(&dir, &[&table("threads"), &table("users")]).unwrap();
    let anew = name(&connection(&dir, "threads"));
    assert_ne!(anew, threads);
    assert_eq!([&threads, &anew].map(|it| names.table(it)), [Some("threads".into()), Some("threads".into())]);
}

#[test]
fn a_file_is_the_server_s_to_read_and_write() {
    let dir = datadir();
    put(&dir, &[&table("threads")]).unwrap();
    let written = fs::metadata(file(&dir, "threads.frm")).unwrap();
    let folder = fs::metadata(dir.path().join("performance_schema")).unwrap();
    assert_eq!(written.permissions().mode() & 0o7777, 0o660);
    assert_eq!((written.uid(), written.gid()), (folder.uid(), folder.gid()));
}

#[test]
fn what_somebody_else_wrote_is_neither_written_over_nor_removed() {
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
    for (what, bytes) in foreign {
        fs::write(file(&dir, "threads.frm"), &bytes).unwrap();
        let report = put(&dir, &[&threads]).unwrap();
        assert_eq!((report.foreign, report.written.len()), (vec!["threads".to_owned()], 0), "{what}");
        assert_eq!(install::remove(dir.path()).unwrap(), Vec::<String>::new(), "{what}");
        assert_eq!(install::list(dir.path()).unwrap(), [], "{what}");
        assert_eq!(fs::read(file(&dir, "threads.frm")).unwrap(), bytes, "{what}");
    }
    // The same file with the mark is the provider's.
    fs::write(file(&dir, "threads.frm"), image(&threads, own, "tare 0.0.1")).unwrap();
    assert_eq!(put(&dir, &[&threads]).unwrap().written, ["threads"]);
}

#[test]
fn a_link_is_not_followed() {
    let dir = datadir();
    let elsewhere = dir.path().join("elsewhere");
    put(&dir, &[&table("threads")]).unwrap();
    fs::rename(file(&dir, "threads.frm"), &elsewhere).unwrap();
    let before = fs::read(&elsewhere).unwrap();
    symlink(&elsewhere, file(&dir, "threads.frm")).unwrap();
    symlink(&elsewhere, file(&dir, "accounts.tare-new")).unwrap();
    let report = put(&dir, &[&table("threads"), &table("accounts")]).unwrap();
    assert_eq!((report.foreign, report.written), (vec!["threads".to_owned()], vec!["accounts".to_owned()]));
    assert_eq!(fs::read(&elsewhere).unwrap(), before);
    assert!(fs::symlink_metadata(file(&dir, "accounts.frm")).unwrap().is_file());
}

#[test]
fn an_interrupted_installation_is_cleared_up_and_another_version_s_tables_go() {
    let dir = datadir();
    put(&dir, &[&table("threads"), &table("tare_old")]).unwrap();
    fs::write(file(&dir, "accounts.tare-new"), "half a fi").unwrap();
    let report = put(&dir, &[&table("threads"), &table("accounts")]).unwrap();
    assert_eq!(report.removed, ["tare_old"]);
    assert_eq!(report.written, ["accounts"]);
    assert_eq!(names(&dir), ["accounts.frm", "db.opt", "threads.frm"]);

    fs::write(file(&dir, "threads.tare-new"), "half a fi").unwrap();
    install::remove(dir.path()).unwrap();
    assert_eq!(names(&dir), ["db.opt"]);
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
    let error = put(&dir, &[&table("threads")]).unwrap_err();
    assert!(
        matches!(error, InstallError::NotADataDirectory { missing: "performance_schema", .. }),
        "{error}"
    );
    assert!(!schema.exists(), "nothing is created");
}

#[test]
fn a_table_that_does_not_fit_is_an_error_and_nothing_is_written() {
    let dir = datadir();
    let mut keyed = Sample::new("keyed", vec![column("TEXT", SqlType::LongText, true)]);
    keyed.indexes = &[&[0]];
    let error = put(&dir, &[&table("threads"), &keyed]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "table keyed: the key TEXT can't be: a text without length, or more than 3072 bytes"
    );
    let long = "x".repeat(1025);
    let mut commented = table("commented");
    commented.columns[0].doc = crate::sample::leak(long);
    assert_eq!(
        put(&dir, &[&commented]).unwrap_err().to_string(),
        "table commented: the comment of NAME is too long"
    );
    assert_eq!(names(&dir), ["db.opt"]);
}

/// A view comes, is known again and goes as a table does; a view of somebody else's stays.
#[test]
fn views_come_and_go_as_tables_do() {
    let dir = datadir();
    let mut view = table("session_status");
    view.body = Some("SELECT 1 AS `NAME`");
    assert_eq!(put(&dir, &[&view]).unwrap().written, ["session_status"]);
    assert_eq!(put(&dir, &[&view]).unwrap().unchanged, ["session_status"]);
    let listed = install::list(dir.path()).unwrap();
    assert_eq!((listed[0].comment.as_str(), &listed[0].connection), (COMMENT, &None));
    view.body = Some("SELECT 2 AS `NAME`");
    assert_eq!(put(&dir, &[&view]).unwrap().written, ["session_status"], "of another body");
    let bytes = fs::read(file(&dir, "session_status.frm")).unwrap();
    fs::copy(file(&dir, "session_status.frm"), file(&dir, "own.frm")).unwrap();
    assert_eq!(install::remove(dir.path()).unwrap(), ["session_status"]);
    assert_eq!(fs::read(file(&dir, "own.frm")).unwrap(), bytes, "somebody else's, under another name");
}

/// Every table the provider serves can be written, and is known again as its own.
#[test]
fn every_table_of_the_provider_fits() {
    let dir = datadir();
    let tables: Vec<&dyn Table> = tare_tables::TABLES.iter().map(|table| *table as &dyn Table).collect();
    let report = install::install(dir.path(), &tables, ENDPOINT).unwrap();
    assert_eq!(report.written.len(), tables.len());
    assert_eq!(install::list(dir.path()).unwrap().len(), tables.len());
}
