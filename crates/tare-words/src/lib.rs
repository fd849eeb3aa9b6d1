//! Words that a database server and its users write, for the provider inside the server and for the tools
//! outside: names of commands and of metadata locks, what stages wait for, error numbers, lines of option
//! files, misspelt names.
//!
//! Each module stands alone.

pub mod command;
pub mod error_number;
pub mod metadata_lock;
pub mod misspelt;
pub mod option_line;
pub mod stage;
