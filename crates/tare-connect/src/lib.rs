//! Finds a server and an account on it the way every MySQL and MariaDB client does.
//!
//! [`ServerOptions`] holds what one source says of a server: the command line, an address (`mysql://…`) or
//! the option files ([`option_file`]). The first source wins, value by value; [`ServerAccount`] is the
//! result. [`ServerAccount::connect`] connects to it, encrypted if requested, and explains a failure in a
//! sentence ([`Error`]).

mod dsn;
mod error;
pub mod greeting;
mod listener;
pub mod option_file;
mod said;
mod secret;
mod server;
mod tls;
mod tunnel;

pub use dsn::{Dsn, WrongDsn, hide};
pub use error::{ClientError, Error, is_connecting, sentence};
pub use listener::listener;
pub use said::{PasswordOption, RejectedValue, ServerOptions};
pub use secret::Secret;
pub use server::{Manner, ServerAccount, ServerLocation};
pub use tls::{Mode, Tls};
