//! Makes the server's own variables about the Performance Schema report tare. Clients ask
//! `@@performance_schema` before they ask a table, `performance_schema_*_size` for sizes, and
//! `Performance_schema_*_lost` for losses.

use std::sync::OnceLock;

use tare_host::options::{OPTIONS, OptionDef, OptionType, Options};

use crate::host::system_variable::VariableError;
use crate::host::{status_variable, system_variable};

/// The value by which the built-in says that it allocates as many as needed. Tare does so for most things;
/// `memory-max` bounds their total.
const AS_NEEDED: i64 = -1;

/// Returns every size, with the part of its name after `performance_schema_`. The options that count things
/// have the same names.
fn sizes(options: &Options) -> Vec<(String, i64)> {
    let mut options = options.clone();
    let mut size = |def: &OptionDef| match def.kind {
        OptionType::Count(.., field) => Some((
            def.name.replace('-', "_"),
            match *field(&mut options) {
                u32::MAX => AS_NEEDED,
                count => count.into(),
            },
        )),
        _ => None,
    };
    OPTIONS.iter().filter_map(&mut size).collect()
}

static OUTCOME: OnceLock<Result<(), VariableError>> = OnceLock::new();

/// Returns whether the variables report tare and, if not, why; `None` if they were never meant to.
pub(crate) fn outcome() -> Option<&'static Result<(), VariableError>> {
    OUTCOME.get()
}

/// Makes the variables report tare. Call it once, on the server's main thread, when the tables are served and
/// before the first session exists.
pub(crate) fn speak_of_tare(options: &Options) -> &'static Result<(), VariableError> {
    OUTCOME.get_or_init(|| {
        let assignments = system_variable::assign(&sizes(options))?;
        status_variable::replace()?;
        assignments.make();
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_the_options_or_as_needed() {
        let mut options = Options::defaults();
        options.digests_size = 7;
        let sizes = sizes(&options);
        let told = |name: &str| sizes.iter().find(|(told, _)| told == name).map(|(_, size)| *size);
        assert_eq!(told("digests_size"), Some(7));
        assert_eq!(told("max_mutex_classes"), Some(2048));
        assert_eq!(told("max_mutex_instances"), Some(AS_NEEDED));
        assert_eq!(sizes.len(), 41, "{sizes:?}");
    }
}
