//! Where a server is and as whom one comes to it: as every client of MySQL and MariaDB finds it.
//!
//! [`Said`] is what one place says of a server: the command line, an address (`mysql://…`), the option files
//! ([`option_file`]). What comes first wins, value by value; [`Server`] is what follows from all of them.
//! [`Server::connect`] comes to it, encrypted where that is wished, and says in a sentence why it cannot ([`Error`]).

mod dsn;
mod error;
pub mod greeting;
pub mod option_file;
mod said;
mod secret;
mod server;
mod tls;
mod tunnel;

pub use dsn::{Dsn, WrongDsn, hide};
pub use error::{Error, Told, is_connecting, sentence};
pub use said::{Ask, Said, Wrong};
pub use secret::Secret;
pub use server::{Manner, Place, Server};
pub use tls::{Mode, Tls};
