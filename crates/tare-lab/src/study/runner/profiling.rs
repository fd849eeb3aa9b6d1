//! CPU profiles of every setting's server, taken after all measurements.

use super::{StudyEvent, StudyRun, WARM_UP, workload_of};
use crate::Result;
use crate::definition::SettingDef;
use crate::error::Tried;
use crate::load::arrivals::Arrivals;
use crate::process::profile::Perf;
use crate::results::record::{Cell, Profile, Record};

/// Least length of a profile in seconds.
const PROFILED: u32 = 5;

impl StudyRun<'_> {
    /// Profiles every setting of every cell, if requested; notes the reason if that is impossible.
    pub(super) fn profile(&mut self, tell: &mut dyn FnMut(StudyEvent<'_>)) -> Result<()> {
        if !self.order.profile {
            return Ok(());
        }
        let perf = match Perf::find(self.bench.folder()) {
            Ok(perf) => perf,
            Err(error) => return self.note(format!("no profiles: perf cannot sample here: {error}")),
        };
        let definition = &self.order.definition;
        for cell in definition.cells() {
            for (place, setting) in definition.settings.iter().enumerate().filter(|(_, s)| !s.control) {
                if definition.runs(workload_of(definition, &cell), setting)
                    && !self.is_profiled(&cell, setting)
                {
                    tell(StudyEvent::Doing(&format!("profiling {cell}: {}", setting.name)));
                    self.profile_one(&perf, &cell, place, tell)?;
                }
            }
        }
        Ok(())
    }

    fn is_profiled(&self, cell: &Cell, setting: &SettingDef) -> bool {
        let of = |r: &Record| matches!(r, Record::Profile(p) if p.cell == *cell && p.setting == setting.name);
        self.journal.records().iter().any(of)
    }

    fn profile_one(
        &mut self,
        perf: &Perf,
        cell: &Cell,
        place: usize,
        tell: &mut dyn FnMut(StudyEvent<'_>),
    ) -> Result<()> {
        self.fleet.start(&[place])?;
        let ready = self.fleet.ready(place)?;
        let setting = self.order.definition.settings[place].name.clone();
        let Some(pid) = ready.pid else {
            return self.note(format!("no profile of {setting}: its process cannot be seen"));
        };
        let rate = self.rate(cell);
        let warm_up = Arrivals::enough(WARM_UP, rate);
        self.whole(cell, place, warm_up, 0, tell)?;
        // Again, now that the server is warm.
        self.watched(cell, place, warm_up, true, tell)?;
        let sampling = perf.start(pid, self.bench.folder())?;
        let seconds = Arrivals::enough(self.definition().whole_slice_seconds().max(PROFILED), rate);
        self.whole(cell, place, seconds, 0, tell)?;
        let stacks = match sampling.finish() {
            Ok(stacks) if !stacks.is_empty() => stacks,
            Ok(_) => return self.note(format!("no profile of {setting}: perf took no samples")),
            Err(error) => return self.note(format!("no profile of {setting}: {error}")),
        };
        let name = format!("profile-{}.folded", self.profiles() + 1);
        let path = self.order.folder.join(&name);
        std::fs::write(&path, stacks).tried(|| format!("writing {}", path.display()))?;
        self.journal.append(Record::Profile(Profile { cell: cell.clone(), setting, stacks: name }))
    }

    fn profiles(&self) -> usize {
        self.journal.records().iter().filter(|r| matches!(r, Record::Profile(_))).count()
    }
}
