//! What a study's results begin with: what is measured, on what, in which settings.

use std::time::SystemTime;

use crate::definition::{Definition, SettingDef};
use crate::machine;
use crate::record::{FORMAT, Header, Machine, Others, ServerFacts, SettingFacts};
use crate::runner::Order;

/// The header of a study that begins now.
pub(crate) fn header(order: &Order, servers: Vec<ServerFacts>, others: Others) -> Header {
    let definition = &order.definition;
    Header {
        format: FORMAT,
        tare: env!("CARGO_PKG_VERSION").into(),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        study: order.name.clone(),
        question: definition.question.clone(),
        quick: order.quick,
        seed: order.seed.unwrap_or_else(|| fastrand::u64(..)),
        slice_seconds: definition.slice_seconds,
        turn_milliseconds: definition.turn_milliseconds,
        precision: definition.precision,
        margin: definition.margin,
        measure: definition.measure,
        budget: order.budget,
        most_blocks: definition.blocks,
        blocks_per_start: definition.blocks_per_start,
        definition: order.text.clone(),
        machine: Machine { others, ..machine::facts() },
        servers,
        settings: definition.settings.iter().map(|s| facts(definition, s)).collect(),
        cells: definition.cells(),
        only: definition.workloads.iter().filter_map(|w| Some((w.name.clone(), w.server.clone()?))).collect(),
    }
}

fn facts(definition: &Definition, setting: &SettingDef) -> SettingFacts {
    let server = definition.server_of(setting);
    let variables = setting.environment.iter().map(|(name, value)| format!("{name}={value}"));
    let preload = setting.preload.iter().map(|object| format!("LD_PRELOAD={object}"));
    let sidecars = setting.sidecars.iter().map(|s| {
        let every = s.scrape.as_ref().map(|_| format!("asked every {} s", s.scrape_seconds));
        let beside = (!s.charged).then(|| "its CPU time is not charged".to_owned());
        let notes = every.into_iter().chain(beside).collect::<Vec<_>>().join("; ");
        let notes = if notes.is_empty() { notes } else { format!(" ({notes})") };
        format!("{} {}{notes}", s.program, s.arguments.join(" "))
    });
    let own = setting.options.iter().chain(&setting.switch).cloned();
    SettingFacts {
        name: setting.name.clone(),
        meaning: setting.meaning.clone(),
        server: server.name.clone(),
        made_by: server
            .options
            .iter()
            .cloned()
            .chain(variables)
            .chain(preload)
            .chain(own)
            .chain(sidecars)
            .collect(),
        base: definition.base_of(setting).into(),
        twin: setting.twin,
    }
}
