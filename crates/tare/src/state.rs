//! The folder for state that has to outlive a command: what it has to restore.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// Returns the folder by default.
pub(crate) fn folder() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("STATE_DIRECTORY") {
        return Ok(folder.into());
    }
    if nix::unistd::Uid::effective().is_root() {
        return Ok("/var/lib/tare".into());
    }
    if let Some(folder) = std::env::var_os("XDG_STATE_HOME") {
        return Ok(PathBuf::from(folder).join("tare"));
    }
    let home = std::env::var_os("HOME").context("HOME is not set: name a folder with --state")?;
    Ok(PathBuf::from(home).join(".local/state/tare"))
}
