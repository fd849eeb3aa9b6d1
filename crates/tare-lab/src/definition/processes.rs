//! Which servers a study uses, and which of its settings share a process.

use std::collections::BTreeSet;

use super::{Definition, ServerDef, SettingDef};

/// Returns the servers that some setting runs on.
pub(crate) fn used_servers(definition: &Definition) -> Vec<&ServerDef> {
    let used: BTreeSet<&str> =
        definition.settings.iter().map(|s| definition.server_of(s).name.as_str()).collect();
    definition.servers.iter().filter(|s| used.contains(s.name.as_str())).collect()
}

/// Returns whether more than one server is started, so that processes are compared.
pub(crate) fn starts_several(definition: &Definition) -> bool {
    let is_ours = |s: &SettingDef| definition.server_of(s).dsn.is_none();
    let is_compared =
        |process: &&Vec<usize>| process.iter().any(|&place| !definition.settings[place].control);
    processes(definition).iter().filter(is_compared).count() > 1 && definition.settings.iter().any(is_ours)
}

/// Returns the indexes of the settings of each process.
pub(crate) fn processes(definition: &Definition) -> Vec<Vec<usize>> {
    let mut processes: Vec<Vec<usize>> = vec![];
    for (place, setting) in definition.settings.iter().enumerate() {
        let server = definition.server_of(setting);
        let same = |process: &&mut Vec<usize>| {
            definition.server_of(&definition.settings[process[0]]).name == server.name
                && are_switched(definition, server)
        };
        match processes.iter_mut().find(same) {
            Some(process) => process.push(place),
            None => processes.push(vec![place]),
        }
    }
    processes
}

/// Returns whether all settings of a server share one process, including the A/A control; otherwise none do.
/// A server that had more turns than another is warmer, so everything on it looks cheaper: by an eighth, with
/// four settings under random reads. A running server always has one process.
fn are_switched(definition: &Definition, server: &ServerDef) -> bool {
    let on_it = |s: &&SettingDef| definition.server_of(s).name == server.name;
    let settings: Vec<&SettingDef> = definition.settings.iter().filter(on_it).collect();
    let alike = |s: &&SettingDef| {
        let first = settings[0];
        !s.goes_on_between_turns()
            && (&s.options, &s.preload, &s.environment)
                == (&first.options, &first.preload, &first.environment)
    };
    let are_compared = settings.iter().filter(|s| !s.control).count() > 1;
    server.dsn.is_some() || are_compared && settings.iter().all(alike)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = r#"
question = "What does a longer sort buffer cost?"
slice_seconds = 1
blocks = 60
minutes = 1
precision = 0.01
margin = 0.01

[[server]]
name = "one"
program = "mariadbd"

[[setting]]
name = "short"
switch = ["SET GLOBAL sort_buffer_size = 262144"]

[[setting]]
name = "long"
switch = ["SET GLOBAL sort_buffer_size = 2097152"]

[[workload]]
name = "points"
run = "oltp_point_select"
users = [2]
"#;

    /// Otherwise each setting would look cheaper, the more of them share a process.
    #[test]
    fn all_settings_of_a_server_are_switched_on_one_process_or_none() {
        let are_switched = |text: &str| {
            let definition = Definition::read(text, "s.toml", false).expect("a study");
            let switched = are_switched(&definition, definition.server_of(&definition.settings[0]));
            (switched, starts_several(&definition))
        };
        assert_eq!(are_switched(STUDY), (true, false));
        let started =
            STUDY.replace("name = \"long\"\n", "name = \"long\"\noptions = [\"--sort-buffer-size=1M\"]\n");
        assert_eq!(are_switched(&started), (false, true));
        let third = format!("{started}\n[[setting]]\nname = \"longer\"\n");
        assert_eq!(are_switched(&third), (false, true), "though two of three are started alike");
        let (one, rest) = STUDY.split_once("[[setting]]\nname = \"long\"").expect("a second one");
        let (_, load) = rest.split_once("\n\n").expect("its end");
        let one = format!("{one}{load}");
        assert_eq!(are_switched(&one), (false, false), "its A/A control is to be another process");
    }
}
