//! What a study is, as its results say first, and whether one that goes on there is the same.

use std::time::SystemTime;

use crate::definition::{Definition, SettingDef};
use crate::machine;
use crate::record::{FORMAT, Header, Machine, Others, ServerFacts, SettingFacts};
use crate::runner::Order;
use crate::{Error, Result};

/// A study that goes on must be the same.
pub(crate) fn check_same(order: &Order, header: &Header) -> Result<()> {
    let other = |what: String| Err(Error::OtherResults { folder: order.folder.clone(), what });
    if header.study != order.name {
        return other(format!("the study `{}`", header.study));
    }
    if header.definition != order.text || header.quick != order.quick {
        return other(format!("`{}` with another definition (or with and without --quick)", header.study));
    }
    if header.driver != driver_of(&order.definition) {
        let from = header.driver.as_deref().map_or("this machine".into(), |prefix| format!("`{prefix}`"));
        return other(format!("`{}` driven from {from}", header.study));
    }
    Ok(())
}

/// What starts its driver, if that is elsewhere.
fn driver_of(definition: &Definition) -> Option<String> {
    definition.driver.as_ref().map(|driver| driver.prefix.clone())
}

/// One that goes on must go on for the same reason: its budget decides when it ends.
pub(crate) fn check_same_budget(order: &Order, header: &Header) -> Result<()> {
    if header.budget == order.budget {
        return Ok(());
    }
    let begun = header.budget.map_or("without --fail-above".into(), |b| format!("with --fail-above {b}"));
    let what = format!("`{}`, begun {begun} and not ended yet", header.study);
    Err(Error::OtherResults { folder: order.folder.clone(), what })
}

/// What a study that begins writes first.
pub(crate) fn header(order: &Order, seed: u64, servers: Vec<ServerFacts>, others: Others) -> Header {
    let definition = &order.definition;
    Header {
        format: FORMAT,
        tare: env!("CARGO_PKG_VERSION").into(),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        study: order.name.clone(),
        question: definition.question.clone(),
        quick: order.quick,
        seed,
        slice_seconds: definition.slice_seconds,
        turn_milliseconds: definition.turn_milliseconds,
        precision: definition.precision,
        margin: definition.margin,
        measure: definition.measure,
        budget: order.budget,
        driver: driver_of(definition),
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
