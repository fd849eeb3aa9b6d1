//! Tables in a data directory: their bytes, what a server makes of them, and whose files are whose.

mod bytes;
mod folder;
mod live;
mod reference;
mod sample;
