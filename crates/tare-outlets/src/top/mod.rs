//! `tare top`: what a server does now, on a screen.
//!
//! A question ([`look::Ask`]) becomes a look ([`read::Reader`]), two looks become rates ([`rate`]), these a page of
//! figures with their units ([`page`], [`state`]), and a page a picture ([`draw`]) or text and JSON ([`once`]). Only
//! reading knows servers, only [`terminal`] knows terminals.

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
pub mod terminal;
mod view;
