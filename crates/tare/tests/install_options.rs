//! Where `tare install` puts its option file: only where the server reads it.

mod tree;

use std::fs;

use tree::{OPTIONS, SERVICE, Tree, UNIT};

/// Where a server reads what is written is its own affair: its my.cnf, or the file its unit names, says so.
#[test]
fn the_option_file_goes_where_the_server_reads_it() {
    const ELSEWHERE: &str = "/srv/options/90-tare.cnf";
    for (file, unit) in [
        ("/etc/mysql/my.cnf", SERVICE.to_owned()),
        ("/etc/own.cnf", SERVICE.replace("mariadbd ", "mariadbd --defaults-file=/etc/own.cnf ")),
        ("/etc/own.cnf", SERVICE.replace("mariadbd ", "mariadbd --defaults-extra-file=/etc/own.cnf ")),
    ] {
        let tree = Tree::new();
        tree.write(UNIT, &unit);
        tree.write("/etc/mysql/my.cnf", "");
        tree.write(file, "[mariadbd]\nskip-networking\n!includedir /srv/options/\n!includedir /not/there\n");
        tree.write("/srv/options/a.cnf", "[mariadbd]\nport=1\n");
        let (status, outcome) = tree.outcome(&["install"]);
        assert_eq!((status, &outcome["state"]), (0, &"changed".into()), "{outcome:#}");
        assert!(tree.at(ELSEWHERE).is_file() && !tree.at(OPTIONS).exists(), "{outcome:#}");
        assert_eq!(tree.outcome(&["install"]).1["state"], "unchanged");
        let (_, said) = tree.tare(&["doctor"]);
        assert!(!said.contains("tare install") && !said.contains("plugin"), "{said}");
        // What an earlier version has left where nobody reads it goes, too.
        tree.write(OPTIONS, &tree.read(ELSEWHERE));
        assert_eq!(tree.outcome(&["uninstall"]).0, 0);
        assert!(!tree.at(ELSEWHERE).exists() && !tree.at(OPTIONS).exists());
    }
}

#[test]
fn a_server_that_reads_no_folder_is_left_alone_and_told_how_it_would() {
    const INCLUDE: &str = "!includedir /etc/mysql/tare.d\n";
    if !Tree::new().at("/usr/lib/mysql/plugin/ha_federatedx.so").exists() {
        return println!("skipped: the server has no plugin that an option file would load");
    }
    let with = |option: &str| SERVICE.replace("mariadbd ", &format!("mariadbd {option} "));
    for (file, unit) in [
        ("/etc/mysql/my.cnf", SERVICE.to_owned()),
        ("/etc/own.cnf", with("--defaults-file=/etc/own.cnf")),
        ("/etc/my.cnf", SERVICE.to_owned()),
    ] {
        let tree = Tree::new();
        tree.write(UNIT, &unit);
        tree.write("/etc/mysql/my.cnf", "");
        tree.write(file, "[mariadbd]\nskip-networking\n# !includedir /etc/mysql/mariadb.conf.d\n");
        let before = tree.listing();
        for command in ["install", "doctor"] {
            let (status, said) = tree.tare(&[command]);
            assert_eq!(status, 1, "{said}");
            for word in [
                file,
                "reads no folder of option files",
                "`!includedir /etc/mysql/tare.d`",
                "plugin-load-add",
            ] {
                assert!(said.contains(word), "{command}: no {word} in:\n{said}");
            }
        }
        assert_eq!(tree.outcome(&["install"]).1["state"], "refused");
        assert_eq!(tree.listing(), before);
        // Either of what it says helps.
        tree.write(file, "[mariadbd]\nplugin-load-add = ha_federatedx\n");
        assert_eq!(tree.outcome(&["install", "--dry-run"]).1["state"], "planned");
        tree.write(file, INCLUDE);
        fs::create_dir_all(tree.at("/etc/mysql/tare.d")).expect("folder");
        assert_eq!(tree.outcome(&["install"]).1["state"], "changed");
        assert!(tree.read("/etc/mysql/tare.d/90-tare.cnf").contains("plugin-load-add"));
        let (_, said) = tree.tare(&["doctor"]);
        assert!(!said.contains("tare install") && !said.contains("options:"), "{said}");
    }
    // A command line that has the server read nothing.
    let tree = Tree::new();
    tree.write(UNIT, &with("--no-defaults"));
    let (status, said) = tree.tare(&["install"]);
    assert!(
        status == 1 && said.contains("--no-defaults") && said.contains("--plugin-load-add=ha_federatedx"),
        "{said}"
    );
    tree.write(UNIT, &with("--no-defaults --plugin-load-add=ha_federatedx"));
    assert_eq!(tree.outcome(&["install"]).1["state"], "changed");
    assert!(!tree.at(OPTIONS).exists());
}

/// Two servers that read different folders have a file each, and lose their own.
#[test]
fn each_server_has_the_file_it_reads() {
    let tree = Tree::new();
    tree.write(
        "/lib/systemd/system/other.service",
        &SERVICE.replace("mariadbd ", "mariadbd --defaults-file=/etc/own.cnf "),
    );
    tree.write("/etc/own.cnf", "!includedir /srv/options\n");
    tree.write("/srv/options/a.cnf", "");
    assert_eq!(tree.tare(&["install"]).0, 0);
    let other = "/srv/options/90-tare.cnf";
    assert!(tree.at(OPTIONS).is_file() && tree.at(other).is_file());
    assert_eq!(tree.tare(&["uninstall", "--unit", "other"]).0, 0);
    assert!(tree.at(OPTIONS).is_file() && !tree.at(other).exists());
    assert_eq!(tree.tare(&["uninstall"]).0, 0);
    assert!(!tree.at(OPTIONS).exists());
}
