//! A budget for overhead: costs per event, the account, and the governor's decision.
//!
//! Everything here is arithmetic: no input, no output, no clock. The caller reads a server's counts and its
//! clock, asks [`Governor::look`] what to do, and does it. `docs/explanation/budget.md` describes what is promised.

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

pub use account::{CostAccount, Entry, CostShare};
pub use board::{Board, Held, Move, Switch};
pub use budget::Budget;
pub use connection::{ConnectionEvents, Connections, counted_since};
pub use governor::sampling::{Resampled, SampleChance};
pub use governor::{Decision, Governor, Look, Rules, Statements, choice, may_sleep, sampling};
pub use kind::{Family, Kind, Level, handler, is_beginning, worth};
pub use price::{Cost, PriceError, Prices, Provider};
pub use uncounted::{Done, Uncounted, WRITES, is_uncounted};
pub use work::Work;
