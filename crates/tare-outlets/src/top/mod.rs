//! `tare top`: the present activity of a server, on a screen.
//!
//! A question ([`look::Ask`]) becomes a sample ([`read::Reader`]), two samples become rates ([`rate`]), these
//! become a page of figures with their units ([`page`], [`state`]), and a page is drawn ([`draw`]) or becomes
//! text and JSON ([`once`]). Only `read` knows servers, and only [`terminal`] knows terminals.

pub mod draw;
pub mod keys;
pub mod look;
pub mod once;
pub mod page;
pub mod rate;
pub mod read;
#[cfg(test)]
mod recorded;
pub mod state;
mod strip;
pub mod terminal;
mod view;
