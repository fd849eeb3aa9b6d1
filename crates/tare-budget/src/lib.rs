//! A budget for overhead: costs per event, the account, and the governor's decision.
//!
//! Everything here is arithmetic: no input, no output, no clock. The caller reads a server's counts and its
//! clock, asks [`Governor::look`] what to do, and does it. `docs/explanation/budget.md` describes what is promised.

pub mod account;
mod asleep;
mod begun;
pub mod board;
mod budget;
pub mod choice;
mod connection;
mod follow;
pub mod governor;
pub mod handler;
pub mod kind;
mod machine;
mod memory;
pub mod pace;
mod plan;
pub mod price;
mod recording;
mod rules;
pub mod sampling;
mod trial;
mod uncounted;
mod work;
pub mod worth;

pub use account::{Account, Entry, Share};
pub use asleep::may_sleep;
pub use begun::is_beginning;
pub use board::{Board, Held, Move, Switch};
pub use budget::Budget;
pub use connection::{Connection, Connections, counted_since};
pub use governor::{Decision, Governor, Look};
pub use kind::{Family, Kind, Level};
pub use price::{Cost, PriceError, Prices, Provider};
pub use rules::{Rules, Statements};
pub use sampling::{Resampled, Sampling};
pub use uncounted::{Done, Uncounted, WRITES, is_uncounted};
pub use work::Work;
