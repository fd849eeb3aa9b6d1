//! What the governor of a budget asks of the server.

use tare_engine::Engine;
use tare_host::governor::{Governed, ServerWork};

use super::presence::while_there;
use super::{ServerHost, events, further_rows, meet_all, memory, threads};

impl Governed for ServerHost {
    fn refresh(&self) {
        while_there(|| {
            meet_all();
            threads::refresh();
        });
    }

    fn work(&self, engine: &Engine) -> ServerWork {
        let statements = Some(engine.sampling().begun);
        ServerWork { statements, further_rows: Some(further_rows::sum()), ..ServerWork::default() }
    }

    fn reports_metadata_locks(&self) -> bool {
        false
    }

    fn levels_changed(&self) {
        events::keep_off();
        memory::keep_off();
    }
}
