//! The provider for stock MariaDB servers, loaded with `LD_PRELOAD`.

pub mod abi;
pub mod error_hook;
pub mod install;
pub mod options;
pub mod redirect;
pub mod startup;
pub mod status;
