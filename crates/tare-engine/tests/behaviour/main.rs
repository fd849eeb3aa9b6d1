//! What a reader sees of what a host reports: every reader, every reset, every filter.

#[path = "../driver/mod.rs"]
mod driver;

mod active;
mod digests;
mod errors;
mod events;
mod exclusions;
mod executions;
mod files;
mod filters;
mod histograms;
mod histories;
mod lasting;
mod levels;
mod limits;
mod locks;
mod measures;
mod memory;
mod parties;
mod peaks;
mod programs;
mod readers;
mod resets;
mod sampling;
mod sessions;
mod streams;
mod successors;
mod summaries;
mod tables;
mod unreported;
