//! How tables are declared, and how a declaration is served.
//!
//! A declaration is a [`definition::TableDef`] (rows come from the engine), a [`view::ViewDef`] (the host has
//! the rows itself), a [`stream::StreamDef`] or an [`absent::AbsentDef`] (always empty).

pub(crate) mod absent;
pub(crate) mod change;
pub(crate) mod column;
mod condition;
pub(crate) mod definition;
mod getter;
pub(crate) mod kept;
mod record;
pub(crate) mod statistic;
pub(crate) mod stream;
pub(crate) mod view;
