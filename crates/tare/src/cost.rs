//! What a setting costs, as a table.

use anyhow::Result;
use tare_lab::load::Load;
use tare_lab::pairing::Pairing;
use tare_lab::setting::Setting;
use tare_lab::statistics::Estimate;
use tare_lab::study::{Bench, Study, Template};

use crate::page::{Column, Grid};
use crate::{status, units};

/// Starts the servers of a comparison; an error when the one with tare runs without it.
pub(crate) fn start<'a>(
    bench: &'a Bench,
    template: &Template,
    load: Load,
    settings: &[Setting],
) -> Result<Study<'a>> {
    let study = Study::start(bench, template, load, settings)?;
    require_active(&study, settings)?;
    Ok(study)
}

fn require_active(study: &Study<'_>, settings: &[Setting]) -> Result<()> {
    let preloaded = study.servers().iter().zip(settings).filter(|(_, s)| s.preload.is_some());
    preloaded.map(|(server, _)| server).try_for_each(status::require_active)
}

/// Rounds before the servers are started anew.
const ROUNDS_PER_START: usize = 5;

/// Blocks that `rounds` rounds of one workload take, with the unmeasured round after each start.
pub(crate) fn blocks(rounds: usize, settings: &[Setting]) -> usize {
    (rounds + rounds.div_ceil(ROUNDS_PER_START)) * settings.len()
}

/// Measures one workload; `done` hears of every block.
pub(crate) fn measure(
    study: &mut Study<'_>,
    settings: &[Setting],
    workload: &str,
    rounds: usize,
    seconds: u64,
    done: &mut dyn FnMut(),
) -> Result<Pairing> {
    let mut pairing = Pairing::default();
    while pairing.rounds() < rounds {
        if pairing.rounds() > 0 {
            study.restart()?;
            require_active(study, settings)?;
        }
        let part = (rounds - pairing.rounds()).min(ROUNDS_PER_START);
        pairing.append(study.measure(workload, part, seconds, done)?);
    }
    Ok(pairing)
}

/// Prints CPU time per transaction of every setting and how it differs from the first.
pub(crate) fn print(settings: &[Setting], pairing: &Pairing) {
    let mut grid = Grid::new(&[
        ("SETTING", Column::Left),
        ("CPU/TX", Column::Right),
        ("TX/S", Column::Right),
        ("MEDIAN", Column::Right),
        ("95%", Column::Left),
        ("MEAN", Column::Right),
        ("95%", Column::Left),
    ]);
    for (i, setting) in settings.iter().enumerate() {
        let figures = [
            setting.name.clone(),
            units::seconds(pairing.cpu_per_transaction(i)),
            units::rate(pairing.per_second(i)),
        ];
        let change = pairing.cpu_change(i, 0).filter(|_| i > 0);
        let changes = change.map_or([(); 4].map(|()| String::new()), |c| {
            [units::change(c.median.value), range(c.median), units::change(c.mean.value), range(c.mean)]
        });
        grid.row(figures.into_iter().chain(changes));
    }
    grid.print();
}

/// In words: how many times as much the built-in adds as tare does.
pub(crate) fn compare(settings: &[Setting], pairing: &Pairing) -> Option<String> {
    let place = |name: &str| settings.iter().position(|s| s.name == name);
    let (tare, builtin) = (place("tare")?, place("built-in")?);
    Some(match pairing.times_dearer(builtin, tare, 0) {
        Some(times) => format!(
            "The built-in adds {:.1} times as much CPU as tare (95%: {:.1} to {:.1}).",
            times.value, times.low, times.high
        ),
        None => "What tare adds cannot be told from zero in this run; how many times as much the built-in adds is \
                 therefore not a figure."
            .into(),
    })
}

fn range(e: Estimate) -> String {
    format!("{} … {}", units::change(e.low), units::change(e.high))
}
