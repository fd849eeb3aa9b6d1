//! Finds a server and an account on it the way every MySQL and MariaDB client does.
//!
//! [`Said`] holds what one source says of a server: the command line, an address (`mysql://…`) or the option
//! files ([`option_file`]). The first source wins, value by value; [`Server`] is the result.
//! [`Server::connect`] connects to it, encrypted if requested, and explains a failure in a sentence
//! ([`Error`]).

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
pub use error::{Error, Told, is_connecting, sentence};
pub use listener::listener;
pub use said::{Ask, Said, Wrong};
pub use secret::Secret;
pub use server::{Manner, Place, Server};
pub use tls::{Mode, Tls};
