//! The provider for stock MariaDB servers, loaded with `LD_PRELOAD`.

pub mod options;
pub mod redirect;
pub mod startup;
pub mod status;
