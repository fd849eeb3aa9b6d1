//! Checks of restrictions around a server: hardening of its unit, AppArmor, SELinux, a data directory without
//! write access.

use std::fs;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};
use tare_host::options::Root;

use super::Finding;
use crate::server::unit::SystemdUnit;
use crate::server::{FoundServer, Prospect, rights};

/// Profiles of AppArmor that packages ship for the server.
const PROFILES: [&str; 3] = ["mariadbd", "usr.sbin.mariadbd", "usr.sbin.mysqld"];
/// The entry of a process's auxiliary vector that makes the loader ignore the environment.
const AT_SECURE: u64 = 23;

pub(super) fn check(server: &FoundServer, prospect: &Prospect, active: bool) -> Vec<Finding> {
    let Some(provider) = server.provider() else { return vec![] };
    if active {
        return vec![];
    }
    let mut findings = server.unit.as_ref().map(|unit| check_unit(unit, &provider)).unwrap_or_default();
    findings.extend(check_loader(server));
    findings.extend(check_confinement(server, &provider));
    findings.extend(check_data(server, prospect));
    findings
}

/// Checks whether a unit's hardening prevents loading this provider.
pub(super) fn check_unit(unit: &SystemdUnit, provider: &Path) -> Vec<Finding> {
    let below = |folders: &[&str]| folders.iter().any(|folder| provider.starts_with(folder));
    let mut findings = vec![];
    let mut problem =
        |what: String, remedy: String| findings.push(Finding::problem("hardening", what, remedy));
    if let Some(setting) = unit.switched_on("MemoryDenyWriteExecute") {
        problem(
            format!(
                "MemoryDenyWriteExecute={} in {} keeps tare from writing jumps into the server's code: it disables itself",
                setting.value,
                setting.file.display()
            ),
            format!(
                "MemoryDenyWriteExecute=no in a drop-in of {} (SECURITY.md says what that means)",
                unit.name
            ),
        );
    }
    let hides_homes = unit
        .setting("ProtectHome")
        .filter(|setting| !["no", "false", "read-only"].contains(&&*setting.value));
    let homes = ["/home", "/root", "/run/user"];
    let hides_temporary = unit.switched_on("PrivateTmp").filter(|_| below(&["/tmp", "/var/tmp"]));
    for setting in hides_homes.filter(|_| below(&homes)).into_iter().chain(hides_temporary) {
        problem(
            format!("{}={} hides {} from the server", setting.key, setting.value, provider.display()),
            "put the provider elsewhere, such as /usr/lib/tare".to_owned(),
        );
    }
    findings
}

/// Checks whether the program gains privileges at its start, so that the loader ignores its environment.
fn check_loader(server: &FoundServer) -> Option<Finding> {
    let process = server.process.as_ref()?;
    if process.provider().is_some() {
        return None;
    }
    let vector = tare_server::process::open(process.pid).ok()?.auxv().ok()?;
    (vector.get(&AT_SECURE) == Some(&1)).then(|| {
        Finding::problem(
            "preload",
            "the server's program gains privileges when it is started (setuid, setgid or capabilities of its file), so the \
             loader takes no LD_PRELOAD",
            "take the capabilities off (getcap, setcap -r) and give them by the unit: AmbientCapabilities",
        )
    })
}

/// Checks whether AppArmor or SELinux may block the provider.
pub(super) fn check_confinement(server: &FoundServer, provider: &Path) -> Vec<Finding> {
    let problem = |what: String, remedy: String| vec![Finding::problem("confinement", what, remedy)];
    let rule = |profile: &str| {
        format!(
            "add `{} mr,` to /etc/apparmor.d/local/{profile}, and run apparmor_parser -r /etc/apparmor.d/{profile}",
            provider.display()
        )
    };
    if let Some(label) = server.process.as_ref().and_then(|process| process.confinement.as_deref()) {
        return if label.contains(":mysqld_t:") && enforces(&server.root) {
            let remedy = format!(
                "chcon -t lib_t {} (semanage fcontext keeps it), and look with ausearch -m avc",
                provider.display()
            );
            problem(format!("SELinux confines the server ({label})"), remedy)
        } else if label.ends_with("(enforce)") {
            let profile = if label.contains("mysqld") { PROFILES[2] } else { PROFILES[0] };
            let remedy = format!("{}; dmesg | grep DENIED shows what was refused", rule(profile));
            problem(format!("AppArmor confines the server ({label})"), remedy)
        } else {
            vec![]
        };
    }
    if server.process.is_some() {
        return vec![];
    }
    let profile = PROFILES.iter().find(|profile| denies(&server.root, profile, provider));
    profile
        .map(|profile| {
            problem(
                format!("AppArmor's profile {profile} does not let the server read the provider"),
                rule(profile),
            )
        })
        .unwrap_or_default()
}

fn enforces(root: &Root) -> bool {
    fs::read_to_string(root.at(Path::new("/sys/fs/selinux/enforce"))).is_ok_and(|text| text.trim() == "1")
}

/// Returns whether a profile has rules, but none that allows reading the provider.
fn denies(root: &Root, profile: &str, provider: &Path) -> bool {
    let folder = Path::new("/etc/apparmor.d");
    let rules = |path: &Path| {
        let text = fs::read_to_string(root.at(path)).unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let rules = lines.filter(|line| !line.starts_with('#') || line.starts_with("#include"));
        rules.map(str::to_owned).collect::<Vec<_>>()
    };
    let own = rules(&folder.join(profile));
    let disabled = fs::symlink_metadata(root.at(&folder.join("disable")).join(profile)).is_ok();
    if own.is_empty() || disabled || own.iter().any(|line| line.contains("complain")) {
        return false;
    }
    // The base abstraction allows reading the system's libraries.
    let libraries =
        ["/usr/lib", "/lib", "/usr/lib64", "/lib64"].iter().any(|folder| provider.starts_with(folder));
    let based = own.iter().any(|line| line.contains("abstractions/base")) && libraries;
    let folder_named = provider.parent().unwrap_or(provider).to_string_lossy().into_owned();
    let local = rules(&folder.join("local").join(profile));
    !based && !own.iter().chain(&local).any(|line| line.contains(&folder_named))
}

/// Checks whether the server can create tare's socket.
pub(super) fn check_data(server: &FoundServer, prospect: &Prospect) -> Vec<Finding> {
    let Some(options) = prospect.options() else { return vec![] };
    let data = server.data(prospect);
    let problem = |what: String, remedy: &str| vec![Finding::problem("socket", what, remedy)];
    let socket = match options.endpoint(&data) {
        Ok(socket) => socket,
        Err(error) => {
            return problem(error.to_string(), "set `socket` in [tare] to a shorter path, and restart");
        }
    };
    let folder = socket.parent().unwrap_or(&data);
    let place = server.root.at(folder);
    let elsewhere = "let the server write there, or set `socket` in [tare] to a path in a folder where it can, and restart";
    let Ok(metadata) = fs::metadata(&place) else {
        return problem(
            format!("{} is not there: tare's socket cannot be made", folder.display()),
            elsewhere,
        );
    };
    if statvfs(&place).is_ok_and(|system| system.flags().contains(FsFlags::ST_RDONLY)) {
        return problem(
            format!(
                "{} is on a file system that can only be read: tare's socket cannot be made",
                folder.display()
            ),
            elsewhere,
        );
    }
    let Some(user) = server.user().filter(|user| rights(&metadata, user) & 0o3 != 0o3) else { return vec![] };
    let what = format!(
        "the server's account {} cannot write to {}: tare's socket cannot be made",
        user.name,
        folder.display()
    );
    problem(what, elsewhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_denies_unless_it_names_the_provider_s_folder() {
        let folder = tempfile::tempdir().expect("folder");
        let root = Root::new(folder.path());
        let place = folder.path().join("etc/apparmor.d");
        fs::create_dir_all(place.join("local")).expect("folder");
        let provider = Path::new("/usr/local/lib/tare/libtare_mariadb.so");
        let denied = |text: &str| {
            fs::write(place.join("mariadbd"), text).expect("file");
            denies(&root, "mariadbd", provider)
        };
        assert!(!denied("# This file is intentionally empty\n"));
        assert!(!denied("/usr/sbin/mariadbd flags=(complain) {\n}\n"));
        let profile = "#include <abstractions/base>\n/usr/sbin/mariadbd {\n /var/lib/mysql/** rwk,\n}\n";
        assert!(denied(profile));
        assert!(!denies(&root, "mariadbd", Path::new("/usr/lib/tare/libtare_mariadb.so")), "by the base");
        fs::write(place.join("local/mariadbd"), "/usr/local/lib/tare/*.so mr,\n").expect("file");
        assert!(!denied(profile));
    }
}
