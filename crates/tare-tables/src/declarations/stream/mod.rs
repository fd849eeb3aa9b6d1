//! The streams: of each event type the events that have ended since the last answer.

mod block;
mod statement;

use std::ops::ControlFlow;

use tare_engine::snapshot::{Parts, StageRow, TransactionRow, WaitRow};
use tare_engine::{Cursor, Each, Engine, EventOrigin, StreamPart};

use super::event;
use crate::framework::column::ColumnDef;
use crate::framework::stream::{StreamDef, StreamType};
use crate::table::{Put, StreamTable};

/// All streams.
pub static STREAMS: &[&dyn StreamTable] =
    &[&statement::STATEMENTS, &block::STATEMENT_BLOCKS, &TRANSACTIONS, &WAITS, &STAGES];

/// Declares kinds whose events come as rows.
macro_rules! kinds {
    ($($kind:ident: $row:ty = $source:path),*) => {$(
        struct $kind;

        impl StreamType for $kind {
            type Event<'a> = $row;
            type Row = $row;
            fn put(event: &$row, _: usize, def: &ColumnDef<$row>, to: &mut dyn Put) {
                def.put(event, to);
            }
            fn read(
                engine: &Engine,
                cursor: &mut Cursor,
                parts: Parts,
                mut each: impl FnMut(&$row, &EventOrigin) -> ControlFlow<()>,
            ) -> StreamPart {
                const SOURCE: StreamFn<$row> = $source;
                SOURCE(engine, cursor, parts, &mut each)
            }
        }
    )*};
}

/// Function that reads a stream of the engine.
type StreamFn<R> = fn(&Engine, &mut Cursor, Parts, Each<'_, R>) -> StreamPart;

kinds!(
    Transactions: TransactionRow = Engine::stream_transactions,
    Waits: WaitRow = Engine::stream_waits,
    Stages: StageRow = Engine::stream_stages
);

/// The table `tare_stream_transactions`.
static TRANSACTIONS: StreamDef<Transactions> = StreamDef::new(
    "tare_stream_transactions",
    "The transactions that have ended since the connection's last SELECT from here, as `tare_stream_statements` has \
     statements.",
    event::TRANSACTION,
);

/// The table `tare_stream_waits`.
static WAITS: StreamDef<Waits> = StreamDef::new(
    "tare_stream_waits",
    "The waits that were recorded since, as `tare_stream_statements` has statements. One that began before the \
     connection's first SELECT is left out; one that never ended counts in POSITION only.",
    event::WAIT,
);

/// The table `tare_stream_stages`.
static STAGES: StreamDef<Stages> = StreamDef::new(
    "tare_stream_stages",
    "The stages that were recorded since, as `tare_stream_waits` has waits.",
    event::STAGE,
);
