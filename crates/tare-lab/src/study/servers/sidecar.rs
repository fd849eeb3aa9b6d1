//! Programs beside a server under load, such as exporters, and their scrapers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::TcpListener;
use std::ops::AddAssign;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use tare_server::program::{beside, find_program, last_lines, run};

use crate::definition::{SettingDef, SidecarDef};
use crate::error::Tried;
use crate::process::interrupt::Interrupt;
use crate::process::{GroupTime, as_pid, of_group, resident};
use crate::study::servers::fleet::Ready;
use crate::{Error, Result};

/// Time limit for a sidecar's first answer.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How often a scraper checks whether it is to end.
const STEP: Duration = Duration::from_millis(20);

/// The running sidecars of a setting. Dropping them kills them and all processes of their process groups.
#[derive(Debug, Default)]
pub struct Sidecars {
    setting: String,
    running: Vec<Sidecar>,
}

/// The resources of sidecars and of the processes in their process groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SidecarUsage {
    /// CPU time of the charged ones.
    pub charged: Duration,
    /// CPU time of the others.
    pub beside: Duration,
    /// Resident memory of all in bytes at the time of reading. Shared memory counts for each process.
    pub resident: u64,
}

impl SidecarUsage {
    /// Returns the usage since `before`.
    pub fn since(self, before: SidecarUsage) -> SidecarUsage {
        SidecarUsage {
            charged: self.charged.saturating_sub(before.charged),
            beside: self.beside.saturating_sub(before.beside),
            resident: self.resident,
        }
    }
}

impl AddAssign for SidecarUsage {
    fn add_assign(&mut self, more: SidecarUsage) {
        self.charged += more.charged;
        self.beside += more.beside;
        self.resident = more.resident;
    }
}

#[derive(Debug)]
struct Sidecar {
    program: String,
    charged: bool,
    child: Child,
    /// CPU time of its process group.
    worked: RefCell<GroupTime>,
    log: PathBuf,
    scraper: Option<Scraper>,
}

impl Sidecars {
    /// Starts the sidecars of a study's setting, in folders of their own under `folder`, and waits until they
    /// answer. Their scrapes are rarer where their server has load in only one of `parts` parts of the time.
    pub fn start(
        (place, setting): (usize, &SettingDef),
        parts: u32,
        server: &Ready,
        folder: &Path,
        interrupt: &Interrupt,
    ) -> Result<Sidecars> {
        let mut sidecars = Sidecars { setting: setting.name.clone(), running: vec![] };
        for (i, definition) in setting.sidecars.iter().enumerate() {
            let own = folder.join(format!("sidecar-{place}-{i}"));
            fs::create_dir_all(&own).tried(|| format!("making {}", own.display()))?;
            let mut sidecar = Sidecar::start(definition, server, folder, &own)?;
            let address = sidecar.address(definition, &own);
            let answered = sidecar.wait_until_it_answers(address.as_deref(), interrupt);
            let every = Duration::from_secs_f64(definition.scrape_seconds) * parts;
            sidecar.scraper = address.map(|address| Scraper::start(address, every));
            sidecars.running.push(sidecar);
            if let Some(why) = answered? {
                return Err(sidecars.failed(i, why));
            }
        }
        Ok(sidecars)
    }

    /// Returns their usage so far, without that of the scrapers.
    pub fn usage(&self) -> SidecarUsage {
        let mut usage = SidecarUsage::default();
        for sidecar in &self.running {
            // A sidecar that has ended is reported by `check`.
            let processes = of_group(sidecar.child.id());
            let cpu = sidecar.worked.borrow_mut().until_now(&processes);
            *(if sidecar.charged { &mut usage.charged } else { &mut usage.beside }) += cpu;
            usage.resident += processes.iter().filter_map(|&pid| resident(pid).ok()).sum::<u64>();
        }
        usage
    }

    /// Returns the times of scrapes since `begun`, in seconds after it, ascending.
    pub fn scrapes_since(&self, begun: Instant) -> Vec<f64> {
        let scrapers = self.running.iter().filter_map(|sidecar| sidecar.scraper.as_ref());
        let asked = scrapers.flat_map(Scraper::asked).filter_map(|at| at.checked_duration_since(begun));
        let mut asked: Vec<f64> = asked.map(|after| after.as_secs_f64()).collect();
        asked.sort_by(f64::total_cmp);
        asked
    }

    /// Returns an error if one has ended, or could not be scraped.
    pub fn check(&mut self) -> Result<()> {
        for i in 0..self.running.len() {
            let sidecar = &mut self.running[i];
            let why = match sidecar.child.try_wait().tried(|| "waiting for a sidecar".into())? {
                Some(status) => Some(format!("it ended ({status})")),
                None => sidecar.scraper.as_ref().and_then(Scraper::failures),
            };
            if let Some(why) = why {
                return Err(self.failed(i, why));
            }
        }
        Ok(())
    }

    fn failed(&self, i: usize, why: String) -> Error {
        let sidecar = &self.running[i];
        let log = fs::read(&sidecar.log).unwrap_or_default();
        let tail = last_lines(&String::from_utf8_lossy(&log), 8);
        Error::Sidecar { program: sidecar.program.clone(), setting: self.setting.clone(), why, tail }
    }
}

impl Sidecar {
    fn start(definition: &SidecarDef, server: &Ready, scratch: &Path, own: &Path) -> Result<Sidecar> {
        let program = find(definition)?;
        let fill = placeholders(server, own)?;
        if definition.tls {
            certificate(own)?;
        }
        for (name, content) in &definition.files {
            let path = own.join(name);
            fs::write(&path, fill(content)).tried(|| format!("writing {}", path.display()))?;
        }
        let log = own.join("log");
        let output = File::create(&log).tried(|| format!("making {}", log.display()))?;
        let again = output.try_clone().tried(|| format!("opening {}", log.display()))?;
        let mut command = Command::new(&program);
        command.args(definition.arguments.iter().map(|a| fill(a)));
        command.envs(definition.environment.iter().map(|(name, value)| (name, fill(value))));
        // The watchdog finds the processes of its folder by this variable.
        command.env("TMPDIR", scratch).current_dir(own);
        command.stdin(Stdio::null()).stdout(output).stderr(again).process_group(0);
        let child = command.spawn().tried(|| format!("starting {}", program.display()))?;
        let (program, charged) = (definition.program.clone(), definition.charged);
        Ok(Sidecar { program, charged, child, worked: RefCell::default(), log, scraper: None })
    }

    /// Returns the address to scrape, with the port it was given.
    fn address(&self, definition: &SidecarDef, own: &Path) -> Option<String> {
        let port = fs::read_to_string(own.join("port")).unwrap_or_default();
        definition.scrape.as_ref().map(|address| address.replace("{port}", port.trim()))
    }

    /// Scrapes until there is an answer; returns what went wrong if there is none.
    fn wait_until_it_answers(
        &mut self,
        address: Option<&str>,
        interrupt: &Interrupt,
    ) -> Result<Option<String>> {
        let Some(address) = address else { return Ok(None) };
        let answered = interrupt.wait_for(START_LIMIT, || {
            if let Some(status) = self.child.try_wait().tried(|| "waiting for a sidecar".into())? {
                return Ok(Some(Some(format!("it ended ({status})"))));
            }
            Ok(scrape(address).is_ok().then_some(None))
        })?;
        Ok(answered.unwrap_or_else(|| {
            let said = scrape(address).err().map_or(String::new(), |e| format!(": {e}"));
            Some(format!("it did not answer at {address} within {} s{said}", START_LIMIT.as_secs()))
        }))
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.scraper.take();
        // The processes that it started are in its group. All of this fails if they have ended, which is
        // fine.
        let _ = killpg(as_pid(self.child.id()), Signal::SIGKILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a function that fills in the placeholders of a study's texts. It finds a free port, which is noted
/// in the folder.
fn placeholders(server: &Ready, own: &Path) -> Result<impl Fn(&str) -> String + use<>> {
    // If another process takes the port in between, the sidecar fails and says so.
    let listener = TcpListener::bind(("127.0.0.1", 0)).tried(|| "looking for a free port".into())?;
    let port = listener.local_addr().tried(|| "looking for a free port".into())?.port().to_string();
    fs::write(own.join("port"), &port).tried(|| format!("writing {}", own.display()))?;
    let Ready { target, datadir, .. } = server;
    let path = |path: &Option<PathBuf>| path.as_ref().map(|it| it.display().to_string()).unwrap_or_default();
    let values: BTreeMap<&str, String> = BTreeMap::from([
        ("{port}", port),
        ("{folder}", own.display().to_string()),
        ("{socket}", path(&target.socket)),
        ("{datadir}", path(datadir)),
        ("{host}", target.host.clone()),
        ("{server_port}", target.port.to_string()),
        ("{user}", target.user.clone()),
        ("{password}", target.password.as_ref().map(|it| it.reveal().to_owned()).unwrap_or_default()),
    ]);
    Ok(move |text: &str| values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value)))
}

/// Returns the program, or an error that says how to install it. A program next to the running one is
/// preferred, so `tare` is the one that runs the study.
pub fn find(definition: &SidecarDef) -> Result<PathBuf> {
    let path = Path::new(&definition.program);
    let found = if path.is_absolute() {
        Some(path.to_owned()).filter(|p| p.is_file())
    } else {
        beside(&definition.program)
    };
    let hint = definition.install.clone().unwrap_or_else(|| "install it".into());
    let missing = || tare_server::Error::Missing { program: definition.program.clone(), hint };
    Ok(found.ok_or_else(missing)?)
}

/// Creates a self-signed certificate for two days.
fn certificate(own: &Path) -> Result<()> {
    let (key, cert) = (own.join("key.pem"), own.join("cert.pem"));
    if cert.is_file() {
        return Ok(());
    }
    let openssl = find_program("openssl", &[]).ok_or_else(|| tare_server::Error::Missing {
        program: "openssl".into(),
        hint: "on Debian, `apt-get install openssl` brings it".into(),
    })?;
    let mut command = Command::new(openssl);
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    command.args(["-subj", "/CN=localhost", "-days", "2"]);
    command.args([OsString::from("-keyout"), key.into(), "-out".into(), cert.into()]);
    Ok(run(&mut command)?)
}

/// Scrapes once and discards the answer; the certificate is self-signed and not checked.
fn scrape(address: &str) -> Result<()> {
    let curl = find_program("curl", &[]).ok_or_else(|| tare_server::Error::Missing {
        program: "curl".into(),
        hint: "on Debian, `apt-get install curl` brings it".into(),
    })?;
    let mut command = Command::new(curl);
    command.args(["--silent", "--show-error", "--fail", "--insecure", "--max-time", "30"]);
    Ok(run(command.args(["--output", "/dev/null", "--"]).arg(address))?)
}

/// Scrapes repeatedly, starting at a random time within the first interval, so that slices get their share on
/// average.
#[derive(Debug)]
struct Scraper {
    state: Arc<SidecarState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct SidecarState {
    interrupt: Interrupt,
    failed: AtomicU32,
    asked: Mutex<Vec<Instant>>,
}

impl Scraper {
    fn start(address: String, every: Duration) -> Scraper {
        let state = Arc::new(SidecarState::default());
        let own = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let mut next = Instant::now() + every.mul_f64(fastrand::f64());
            while !own.interrupt.is_set() {
                if Instant::now() < next {
                    std::thread::sleep(STEP);
                    continue;
                }
                next += every;
                own.asked.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
                if scrape(&address).is_err() {
                    own.failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Scraper { state, thread: Some(thread) }
    }

    /// Returns the times of its scrapes so far.
    fn asked(&self) -> Vec<Instant> {
        self.state.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn failures(&self) -> Option<String> {
        let failed = self.state.failed.load(Ordering::Relaxed);
        (failed > 0).then(|| format!("{failed} scrapes failed"))
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.state.interrupt.flag().store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join); // it does not panic
    }
}

#[cfg(test)]
mod tests {
    use tare_server::eventually;

    use super::*;
    use crate::process::cpu_time;
    use crate::server::target::ServerTarget;

    fn definition(script: &str, scrape: Option<&str>) -> SidecarDef {
        SidecarDef {
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: BTreeMap::new(),
            files: BTreeMap::from([("who".into(), "{user}".into())]),
            scrape: scrape.map(Into::into),
            scrape_seconds: 60.0,
            tls: false,
            charged: true,
            install: None,
        }
    }

    fn ready() -> Ready {
        Ready {
            target: ServerTarget::of_socket(Path::new("/none")),
            pid: None,
            clock: None,
            process: None,
            datadir: Some("/data".into()),
        }
    }

    fn start(definition: SidecarDef, folder: &Path) -> Result<Sidecars> {
        start_all(vec![definition], 1, folder)
    }

    fn start_all(definitions: Vec<SidecarDef>, parts: u32, folder: &Path) -> Result<Sidecars> {
        let mut setting: SettingDef = toml::from_str("name = 'agent'").expect("a setting");
        setting.sidecars = definitions;
        Sidecars::start((0, &setting), parts, &ready(), folder, &Interrupt::default())
    }

    #[test]
    fn what_is_not_charged_is_counted_beside() {
        let folder = tempfile::tempdir().expect("a folder");
        let busy = "test {datadir} = /data || exit 1; while :; do :; done";
        for charged in [true, false] {
            let one = SidecarDef { charged, ..definition(busy, None) };
            let mut sidecars = start(one, folder.path()).expect("starts");
            let before = sidecars.usage();
            let used = loop {
                sidecars.check().expect("it runs");
                let used = sidecars.usage().since(before);
                if used.charged + used.beside > Duration::from_millis(5) {
                    break used;
                }
            };
            assert_eq!((used.charged.is_zero(), used.beside.is_zero()), (!charged, charged));
            assert!(used.resident > 100_000, "{used:?}");
        }
    }

    /// Returns whether a process exists and is no zombie.
    fn runs(pid: u32) -> bool {
        tare_server::process::open(pid).is_ok_and(|process| process.is_alive())
    }

    #[test]
    fn what_a_sidecar_starts_is_charged_and_ends_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = "(while :; do :; done) & echo $! > child; wait";
        let mut sidecars = start(definition(script, None), folder.path()).expect("starts");
        let worked = Duration::from_millis(20);
        let child = eventually("the child works", START_LIMIT, || {
            sidecars.check().expect("it runs");
            let noted = fs::read_to_string(folder.path().join("sidecar-0-0/child")).unwrap_or_default();
            let child = noted.trim().parse::<u32>().ok();
            child.filter(|child| cpu_time(*child).expect("it runs") > worked)
        });
        let (used, alone) = (sidecars.usage(), resident(sidecars.running[0].child.id()).expect("it runs"));
        assert!(used.charged > worked && used.beside.is_zero(), "{used:?}");
        assert!(used.resident > alone, "{used:?}, and the shell alone has {alone}");
        drop(sidecars);
        eventually("the child has ended", START_LIMIT, || !runs(child));
    }

    #[test]
    fn what_a_sidecar_started_and_waited_for_is_charged() {
        let folder = tempfile::tempdir().expect("a folder");
        // A shell works for ten ticks, by its own clock, and ends before anybody looks.
        let ten_ticks = "while read -r line < /proc/$$/stat; do set -- $line; [ $((${14} + ${15})) -lt 10 ] || break; done";
        let script = format!("sh -c '{ten_ticks}'; echo > done; exec sleep 600");
        let mut sidecars = start(definition(&script, None), folder.path()).expect("starts");
        eventually("its child has ended", START_LIMIT, || {
            sidecars.check().expect("it runs");
            folder.path().join("sidecar-0-0/done").exists()
        });
        let used = sidecars.usage();
        // Two ticks may be lost where ticks in user mode and in the kernel are divided again.
        assert!(used.charged >= Duration::from_millis(80), "{used:?}");
        assert!(sidecars.usage().charged >= used.charged);
    }

    #[test]
    fn a_program_beside_the_one_that_runs_comes_first() {
        let own = std::env::current_exe().expect("a program");
        let name = own.file_name().expect("a name").to_str().expect("UTF-8").to_owned();
        let one = SidecarDef { program: name, ..definition("", None) };
        assert_eq!(find(&one).expect("it is there"), own);
    }

    #[test]
    fn it_is_known_when_they_were_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let often = || SidecarDef {
            scrape_seconds: 0.02,
            ..definition("exec sleep 600", Some("file:///proc/self/stat"))
        };
        let begun = Instant::now();
        let sidecars = start_all(vec![often(), often()], 1, folder.path()).expect("starts");
        let asked = eventually("they are asked", START_LIMIT, || {
            Some(sidecars.scrapes_since(begun)).filter(|asked| asked.len() > 5)
        });
        assert!(asked.is_sorted() && asked[0] >= 0.0, "of both together, in order: {asked:?}");
        let later = sidecars.scrapes_since(begun + Duration::from_secs_f64(asked[2]));
        assert!(later.iter().all(|at| *at >= 0.0) && later.len() + 2 >= asked.len(), "{later:?}");
        assert!(sidecars.scrapes_since(Instant::now() + Duration::from_secs(3600)).is_empty());
    }

    #[test]
    fn one_that_ends_is_an_error_with_its_last_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = "echo so sad, $(cat who); exit 3";
        let error = start(definition(script, Some("http://127.0.0.1:{port}/")), folder.path());
        let error = error.expect_err("it ends").to_string();
        assert!(error.contains("so sad, root") && error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn it_runs_beside_until_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sidecars = start(definition("exec sleep 600", None), folder.path()).expect("starts");
        sidecars.check().expect("it runs");
        let pid = sidecars.running[0].child.id();
        drop(sidecars);
        assert!(cpu_time(pid).is_err(), "{pid} still runs");
    }
}
