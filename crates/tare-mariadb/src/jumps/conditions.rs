//! Detours of the server's functions that every error, warning and note passes through.
//!
//! No PSI call reports errors. `THD::raise_condition` asks `THD::handle_condition` whether an internal
//! handler takes a condition, for all conditions except notes that are switched off and fatal errors. A
//! stored program looks for a handler of its own in `sp_rcontext::handle_sql_condition`, which asks
//! `sp_pcontext::find_handler` for each condition there is. `thd_get_error_number` shows where a session has
//! its diagnostics area.

use std::sync::OnceLock;

use tare_host::jumps::{DetourError, Function, copies};

use crate::entry::condition;
use crate::host::diagnostics;

static HINDRANCE: OnceLock<Option<DetourError>> = OnceLock::new();

/// Returns what prevents errors from being counted, if anything; `None` if counting was not requested.
pub(crate) fn hindrance() -> Option<Option<&'static DetourError>> {
    HINDRANCE.get().map(Option::as_ref)
}

/// Prepares the detours and returns pairs of a server's function and tare's; empty if that is impossible.
pub(crate) fn prepare() -> Vec<(usize, usize)> {
    match detours() {
        Ok(detours) => {
            let _once = HINDRANCE.set(None);
            detours.into()
        }
        Err(error) => {
            let _once = HINDRANCE.set(Some(error));
            Vec::new()
        }
    }
}

fn detours() -> Result<[(usize, usize); 4], DetourError> {
    let raise = Function::find(c"_ZN3THD15raise_conditionEPK13Sql_condition")?;
    let handle = Function::find(
        c"_ZN3THD16handle_conditionEjPKcPN21Sql_state_errno_level18enum_warning_levelES1_PP13Sql_condition",
    )?;
    let execute = Function::find(c"_ZN7sp_head7executeEP3THDb")?;
    let take = Function::find(c"_ZN11sp_rcontext20handle_sql_conditionEP3THDPjPK8sp_instr")?;
    let find = Function::find(c"_ZNK11sp_pcontext12find_handlerERK22Sql_condition_identity")?;
    // Calls that the compiler has inlined into the caller would bypass a detour.
    raise.calls(handle)?;
    execute.calls(take)?;
    take.calls(find)?;
    // Without it errors would be counted as often as the server reports them, which is twice for many.
    if !diagnostics::find_area() {
        return Err(DetourError::Unexpected("thd_get_error_number"));
    }
    let functions = [handle, take, find, raise];
    let targets = condition::intercept(copies(functions)?);
    Ok(std::array::from_fn(|at| (functions[at].start(), targets[at])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_server_is_left_alone() {
        assert_eq!(prepare(), []);
        assert!(matches!(hindrance(), Some(Some(DetourError::Missing(_)))));
    }
}
