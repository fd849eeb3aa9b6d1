//! A budget for overhead: costs per event, the account, and the governor's decision.
//!
//! Everything here is arithmetic: no input, no output, no clock. The caller reads a server's counts and its
//! clock, asks [`Governor::look`] what to do, and does it. `docs/explanation/budget.md` describes what is
//! promised.
//!
//! # Examples
//!
//! A server spends a tenth of its CPU time on counting an instrument. With a budget of 1%, the governor
//! lowers its level.
//!
//! ```
//! use std::time::Duration;
//!
//! use tare_budget::board::Switched;
//! use tare_budget::{Governor, GovernorRules, GovernorSample, Kind, Level};
//! use tare_budget::{PricedProvider, Prices, StatementSumsRule, Switch};
//!
//! let rules = GovernorRules { budget: 0.01, budget_p95: None, statements: StatementSumsRule::Kept };
//! let prices = Prices::shipped(PricedProvider::Tare)?;
//! let name = "wait/synch/mutex/sql/LOCK_table_cache".to_owned();
//! let board = [Switch {
//!     name: name.clone(),
//!     of: Switched::Instrument(Kind::of(&name).expect("a kind with a price")),
//!     levels: vec![Level::Off, Level::Counts, Level::Sums, Level::Exact],
//!     present: Level::Exact,
//!     held: None,
//! }];
//! let sample = GovernorSample {
//!     now: Duration::from_secs(5),
//!     cpu: 1e9,
//!     events: [(name.clone(), 1e7)].into(),
//!     ..GovernorSample::default()
//! };
//! let decision = Governor::new(rules, prices).look(&board, &sample);
//! assert!(decision.account.share().ns > 0.01);
//! assert_eq!(decision.moves[0].switch, name);
//! assert!(decision.moves[0].to < Level::Exact);
//! # Ok::<(), tare_budget::PriceError>(())
//! ```

pub mod account;
pub mod board;
mod budget;
mod connection;
pub mod governor;
pub mod kind;
pub mod pace;
pub mod price;
mod uncounted;
mod work;

pub use account::{CostAccount, CostShare, InstrumentEvents};
pub use board::{Board, Held, Move, Switch};
pub use budget::Budget;
pub use connection::{ConnectionEvents, Connections, counted_since};
pub use governor::sampling::{Resampled, SampleChance};
pub use governor::{
    Decision, Governor, GovernorRules, GovernorSample, StatementSumsRule, choice, may_sleep, sampling,
};
pub use kind::{HistoryFamily, Kind, Level, handler, is_beginning, worth};
pub use price::{Cost, PriceError, PricedProvider, Prices};
pub use uncounted::{Done, Uncounted, WRITES, count_table_waits, is_table_io, is_uncounted};
pub use work::Work;
