//! Load from another machine or network, where a command prefix such as `ssh load1` starts the driver.
//!
//! The prefix starts `sh`, which reads a script from its standard input. So the other side needs only a shell
//! and sysbench, and no prefix has to quote anything. The script brings the workload in a folder of its own
//! and removes it at the end. Meanwhile it obeys orders from the same input, which stop and continue the
//! driver. When the input ends, because this process ends or the connection breaks, it kills the driver.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use tare_connect::Secret;

use crate::error::Tried;
use crate::process::interrupt::Interrupt;
use crate::server::target::ServerTarget;
use crate::{Error, Result};

/// The account of remote drivers on servers that the lab starts.
const ACCOUNT: &str = "tare_lab_driver";
/// Time limit for the other side's first answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The shell's answer once it has obeyed.
pub(crate) const OBEYED: &str = "obeyed";
/// The shell's exit status for a missing program.
const NOT_THERE: i32 = 127;

/// The origin of the load, as a study describes it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DriverDef {
    /// The command before `sh`, separated by blanks: `ssh load1`, `ip netns exec load`.
    pub prefix: String,
    /// This machine's address as seen from there.
    pub address: Option<String>,
}

/// The place where drivers are started, and their access to the lab's servers.
#[derive(Clone, Debug)]
pub struct Outpost {
    prefix: Vec<String>,
    /// This machine's address as seen from there, if known.
    address: Option<String>,
    password: String,
}

impl Outpost {
    /// Connects to the other side and checks that it can drive.
    pub fn reach(driver: &DriverDef, interrupt: &Interrupt) -> Result<Outpost> {
        let mut outpost = Outpost {
            prefix: driver.prefix.split_whitespace().map(str::to_owned).collect(),
            address: driver.address.clone(),
            password: format!("{:016x}", fastrand::u64(..)),
        };
        let said = outpost
            .ask("command -v sysbench >/dev/null || exit 127; echo reached \"$SSH_CONNECTION\"", interrupt)?;
        let Some(connection) = said.strip_prefix("reached") else {
            return Err(outpost.wrong(format!("it starts no shell, but something that says {said:?}")));
        };
        // The ssh daemon reports the address from which it was reached: this machine's.
        let ours = connection.split_whitespace().next().map(str::to_owned);
        outpost.address = outpost.address.or(ours);
        Ok(outpost)
    }

    /// Runs a shell command there, and returns its output.
    fn ask(&self, words: &str, interrupt: &Interrupt) -> Result<String> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| self.wrong(e.to_string()))?;
        if let Some(mut pipe) = child.stdin.take() {
            let _ = pipe.write_all(format!("{words}\n").as_bytes()); // what ended has a status
        }
        let ended = interrupt.wait_for(PATIENCE, || child.try_wait().tried(|| "waiting for a shell".into()));
        let Some(status) = ended.inspect_err(|_| drop(child.kill()))? else {
            let _ = child.kill().and_then(|()| child.wait());
            return Err(self.wrong(format!("there is no answer within {} s", PATIENCE.as_secs())));
        };
        let text = |pipe: Option<&mut dyn Read>| {
            let mut text = String::new();
            let _ = pipe.map(|pipe| pipe.read_to_string(&mut text)); // what cannot be read is not shown
            text.trim().to_owned()
        };
        let errors = text(child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
        match status.code() {
            Some(0) => Ok(text(child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read))),
            Some(NOT_THERE) if errors.is_empty() => {
                Err(self.wrong("there is no sysbench; on Debian, `apt-get install sysbench` brings it".into()))
            }
            _ if self.is_ssh() => Err(self.wrong(format!(
                "{errors}\nssh may ask for nothing here: it needs a key without a passphrase, or one in an agent, and a host it \
                 knows. Try `ssh -o BatchMode=yes {} true`",
                self.prefix[1..].join(" ")
            ))),
            _ => Err(self.wrong(format!("{errors} ({status})"))),
        }
    }

    fn wrong(&self, why: String) -> Error {
        Error::Outpost { prefix: self.prefix.join(" "), why }
    }

    fn is_ssh(&self) -> bool {
        self.prefix.first().is_some_and(|program| program.rsplit('/').next() == Some("ssh"))
    }

    /// Returns the command that starts a shell there.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.prefix.first().map_or("sh", String::as_str));
        if self.is_ssh() {
            // There is nobody to answer prompts, and a dead link must be detected.
            command.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10"]);
        }
        command.args(self.prefix.iter().skip(1)).arg("sh");
        command
    }

    /// Returns an address at which drivers can reach a server that the lab is about to start.
    pub(crate) fn door(&self) -> Result<(String, u16)> {
        let address = self.address.as_ref().ok_or_else(|| {
            self.wrong(
                "it is not known how servers of this machine are reached from there: say this machine's address \
                 (`address` in the study's section [driver], or --driver-address)"
                    .into(),
            )
        })?;
        let free = TcpListener::bind((address.as_str(), 0)).and_then(|listener| listener.local_addr());
        let port = free.map_err(|error| {
            self.wrong(format!(
                "servers cannot listen at {address} ({error}): name an address of this machine (`address` in the study's \
                 section [driver], or --driver-address)"
            ))
        })?;
        Ok((address.clone(), port.port()))
    }

    /// Returns the statements that create the drivers' account on a server of the lab.
    pub(crate) fn admission(&self) -> [String; 2] {
        [
            format!("CREATE USER {ACCOUNT}@'%' IDENTIFIED BY '{}'", self.password),
            // Only the lab's schemas, as anybody on the network may try to log in.
            format!("GRANT ALL ON `lab\\_%`.* TO {ACCOUNT}@'%'"),
        ]
    }

    /// Returns a server's address and account as drivers use them.
    pub(crate) fn seen(&self, target: &ServerTarget) -> ServerTarget {
        if target.socket.is_none() {
            return target.clone();
        }
        ServerTarget {
            socket: None,
            user: ACCOUNT.into(),
            password: Some(Secret::new(&self.password)),
            ..target.clone()
        }
    }
}

/// Returns the shell script, which unpacks these files, drives, and obeys orders.
pub(crate) fn script(files: &[(&str, &str)], arguments: &[String]) -> String {
    let files = files.iter().map(|(name, text)| {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        format!("cat > {} << 'END OF FILE'\n{text}{end}END OF FILE\n", quoted(name))
    });
    let files: String = files.collect();
    let arguments: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
    let drive = format!("sysbench {}", arguments.join(" "));
    // In braces, so that the shell reads it whole before it runs; the input after it are orders.
    format!(
        "{{\n\
         umask 077\n\
         folder=$(mktemp -d) && cd \"$folder\" || exit\n\
         {files}\
         exec 3<&0\n\
         {drive} </dev/null 3<&- &\n\
         driver=$!\n\
         {{\n\
         while read -r order; do kill -s \"$order\" $driver; echo \"{OBEYED} $order\"; done\n\
         kill -s KILL $driver\n\
         }} <&3 2>/dev/null &\n\
         keeper=$!\n\
         wait $driver\n\
         status=$?\n\
         kill $keeper\n\
         cd / && rm -rf \"$folder\"\n\
         exit $status\n\
         }}\n"
    )
}

/// Quotes a word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outpost(prefix: &str) -> Result<Outpost> {
        let driver = DriverDef { prefix: prefix.into(), address: Some("127.0.0.1".into()) };
        Outpost::reach(&driver, &Interrupt::default())
    }

    #[test]
    fn words_pass_a_shell_as_they_are() {
        let words = "it's $HOME and `x` \\ \"y\"\n*";
        let said = Command::new("sh").arg("-c").arg(format!("printf %s {}", quoted(words))).output();
        assert_eq!(String::from_utf8_lossy(&said.expect("a shell").stdout), words);
    }

    #[test]
    fn a_place_that_cannot_drive_is_refused_with_what_to_do() {
        let cases = [
            ("no-such-program load1", "`no-such-program load1`"),
            ("env PATH=/nowhere /bin/sh -c /bin/sh", "apt-get install sysbench"),
            ("false", "exit status: 1"),
            ("true", "it starts no shell"),
            ("ssh -F none -o Port=1 127.0.0.1", "BatchMode=yes"),
        ];
        for (prefix, expected) in cases {
            let said = outpost(prefix).expect_err("it cannot drive").to_string();
            assert!(said.contains(expected), "{prefix}: {said}");
        }
    }
}
