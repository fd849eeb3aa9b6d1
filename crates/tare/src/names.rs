//! Names that the command line knows, but does not insist on: completions offer them.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use tare_lab::catalogue::STUDIES;
use tare_lab::workload::WORKLOADS;

/// A parser of any text that offers names to completions.
#[derive(Clone, Copy)]
pub(crate) struct NameParser(fn() -> Vec<&'static str>);

impl NameParser {
    /// The studies that ship; a file may be named, too.
    pub(crate) const STUDIES: NameParser = NameParser(|| STUDIES.iter().map(|(name, _)| *name).collect());
    /// The workloads; the error about another one says more than clap would.
    pub(crate) const WORKLOADS: NameParser = NameParser(|| WORKLOADS.iter().map(|it| it.name).collect());
}

impl TypedValueParser for NameParser {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}
