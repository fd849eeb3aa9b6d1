//! User variables of the server's sessions, read where each session keeps them.
//!
//! A session changes its variables only while it executes, never between its statements. A variable that a
//! statement may set carries the statement's number before anything of it changes. So a reader knows what is
//! stable: everything of a session that sleeps, and what carries the number of an earlier statement. It reads
//! the session's command, the statement's number and the variable's head before and after, and everything
//! twice. A numeric value is one word and always whole. The rest, a text or a decimal that the current
//! statement sets, is reported as changing.

use std::sync::OnceLock;

use tare_engine::{Session, SessionValue};
use tare_host::process::observation::{self, block, field, word};
use tare_host::process::symbol;

use super::code;
use super::session::{self, LayoutError};
use crate::abi::Series;

/// The most variables read of a session.
const MOST: u64 = 1 << 16;
/// The most bytes shown of a value.
const LONGEST: usize = 1 << 20;

/// `HASH` of the server's `hash.h`, and the array in it.
#[derive(Clone, Copy, Debug)]
struct Hash {
    /// The size in bytes of each of the array's four numbers. The first is the number of elements, the last
    /// their size.
    number: usize,
}

impl Hash {
    const RECORDS: usize = 24;
    const LINKS: usize = 40;
    const ELEMENTS: usize = 48;

    /// Returns the layout of a series: headers of 10.6 and 10.11; machine code of 10.6.23's `my_hash_init2`.
    fn of(series: Series) -> Hash {
        Hash { number: if series == Series::V10_6 { 4 } else { 8 } }
    }

    const fn link_bytes(self) -> usize {
        Hash::ELEMENTS + 3 * self.number
    }

    /// Returns the offset after the array, which ends with two words, and three functions.
    const fn charset(self) -> usize {
        Hash::ELEMENTS + 4 * self.number + 5 * 8
    }

    const fn bytes(self) -> usize {
        self.charset() + 8
    }

    /// Reads one of the array's numbers.
    fn number(self, head: &[u8], at: usize) -> Option<u64> {
        let number = head.get(at..)?.get(..self.number)?;
        Some(number.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
    }
}

/// The size of `HASH_LINK`: two numbers, then the element.
const LINK: usize = 16;

/// `user_var_entry` of the server's `sql_class.h`; a short value and the name follow it.
mod entry {
    pub(super) const TYPE: usize = 0;
    pub(super) const NAME: usize = 16;
    pub(super) const NAME_BYTES: usize = 24;
    pub(super) const VALUE: usize = 32;
    pub(super) const VALUE_BYTES: usize = 40;
    pub(super) const SET_BY: usize = 48;
    pub(super) const BYTES: usize = 64;
    /// The entry is followed by space for a short value.
    pub(super) const SHORT: usize = 8;
    /// The longest name: 64 characters.
    pub(super) const NAME_MOST: usize = 192;
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UserVariableType {
    Signed,
    Unsigned,
    Fraction,
    Decimal,
    Text,
}

/// The server's objects that identify the type of a value.
const TYPES: [(&std::ffi::CStr, UserVariableType); 13] = [
    (c"type_handler_slonglong", UserVariableType::Signed),
    (c"type_handler_ulonglong", UserVariableType::Unsigned),
    (c"type_handler_double", UserVariableType::Fraction),
    (c"type_handler_newdecimal", UserVariableType::Decimal),
    (c"type_handler_long_blob", UserVariableType::Text),
    (c"type_handler_geometry", UserVariableType::Text),
    (c"type_handler_point", UserVariableType::Text),
    (c"type_handler_linestring", UserVariableType::Text),
    (c"type_handler_polygon", UserVariableType::Text),
    (c"type_handler_multipoint", UserVariableType::Text),
    (c"type_handler_multilinestring", UserVariableType::Text),
    (c"type_handler_multipolygon", UserVariableType::Text),
    (c"type_handler_geometrycollection", UserVariableType::Text),
];

/// The offsets of a session's variables and of its statement's number.
#[derive(Debug)]
pub(crate) struct UserVariableLayout {
    variables: usize,
    statement: usize,
    charset: usize,
    hash: Hash,
    types: Vec<(usize, UserVariableType)>,
}

impl UserVariableLayout {
    fn prove(series: Series) -> Result<UserVariableLayout, LayoutError> {
        session::layout().map_err(Clone::clone)?;
        let statement = session::member(c"thd_query_id", code::loaded)?;
        let set_entry = session::function(c"_ZN22Item_func_set_user_var9set_entryEP3THDb")?;
        let callee = session::function(c"_Z12get_variableP7st_hashP25st_mysql_const_lex_stringb")?;
        let code = observation::bytes::<160>(set_entry);
        let variables = code.and_then(|code| code::handed_to(&code, set_entry, callee));
        let variables = variables.ok_or(LayoutError::Code("Item_func_set_user_var::set_entry"))?;
        let charset = session::function(c"system_charset_info")?;
        let types = TYPES.iter().filter_map(|(name, form)| Some((symbol(name)?.addr(), *form))).collect();
        Ok(UserVariableLayout { variables, statement, charset, hash: Hash::of(series), types })
    }

    /// Reads all variables once; returns `None` if something changed or is not as expected.
    fn look(&self, session: Session) -> Option<Vec<(String, SessionValue)>> {
        let thd = usize::try_from(session.handle).ok()?;
        let at = thd.checked_add(self.variables)?;
        let statement = || word(thd.checked_add(self.statement)?);
        let hash = self.hash;
        let (now, head) = (statement()?, block(at, hash.bytes())?);
        let records = field(&head, Hash::RECORDS)?;
        let mut variables = Vec::new();
        if records > 0 {
            let plausible = hash.number(&head, hash.link_bytes())? == LINK as u64
                && hash.number(&head, Hash::ELEMENTS)? == records
                && field(&head, hash.charset())? == word(self.charset)?
                && records <= MOST;
            let links = field(&head, Hash::LINKS).filter(|_| plausible)?;
            let links = block(usize::try_from(links).ok()?, records as usize * LINK)?;
            for link in links.chunks_exact(LINK) {
                let entry = usize::try_from(field(link, 8)?).ok()?;
                variables.push(self.variable(entry, session, now)?);
            }
        }
        let still = block(at, hash.bytes())? == head && statement()? == now;
        still.then_some(variables)
    }

    fn variable(&self, at: usize, session: Session, statement: u64) -> Option<(String, SessionValue)> {
        let head = block(at, entry::BYTES)?;
        let name_len = usize::try_from(field(&head, entry::NAME_BYTES)?).ok()?;
        let name_at = at.checked_add(entry::BYTES + entry::SHORT)?;
        if field(&head, entry::NAME)? != name_at as u64 || name_len > entry::NAME_MOST {
            return None;
        }
        let name = String::from_utf8(block(name_at, name_len)?).ok()?;
        let form = self.form(usize::try_from(field(&head, entry::TYPE)?).ok()?)?;
        let is_word = matches!(
            form,
            UserVariableType::Signed | UserVariableType::Unsigned | UserVariableType::Fraction
        );
        // A session that never reported a command sleeps.
        let stands = session.command.unwrap_or(0) == 0 || field(&head, entry::SET_BY)? < statement;
        let (value, len) = (field(&head, entry::VALUE)?, field(&head, entry::VALUE_BYTES)?);
        let value = match (usize::try_from(value).ok()?, usize::try_from(len).ok()?) {
            (0, _) => SessionValue::Null,
            _ if !is_word && !stands => SessionValue::Changing,
            // The built-in shows an empty text like this.
            (_, 0) => SessionValue::Null,
            (value, len) => SessionValue::Text(text(form, &block(value, len.min(LONGEST))?)?),
        };
        (block(at, entry::BYTES)? == head).then_some((name, value))
    }

    fn form(&self, handler: usize) -> Option<UserVariableType> {
        self.types.iter().find(|(at, _)| *at == handler).map(|(_, form)| *form)
    }
}

/// Formats a value as the built-in shows it; numbers with a fraction are rounded.
fn text(form: UserVariableType, value: &[u8]) -> Option<Vec<u8>> {
    let word = || field(value, 0).filter(|_| value.len() == 8);
    Some(match form {
        UserVariableType::Signed => word()?.cast_signed().to_string().into_bytes(),
        UserVariableType::Unsigned => word()?.to_string().into_bytes(),
        UserVariableType::Fraction => rounded(f64::from_bits(word()?)).into_bytes(),
        UserVariableType::Decimal => decimal(value)?.into_bytes(),
        UserVariableType::Text => value.to_vec(),
    })
}

/// Formats a number without its fraction as the server does: one that becomes 0 keeps its point, and of large
/// ones only the significant digits are shown.
fn rounded(number: f64) -> String {
    /// The bound beyond which all numbers are whole.
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    if number.abs() < WHOLE {
        let text = format!("{number:.0}");
        let vanishes = number != 0.0 && text.trim_start_matches('-') == "0";
        return if vanishes { text + "." } else { text };
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let (sign, digits) = if let Some(rest) = digits.strip_prefix('-') { ("-", rest) } else { ("", digits) };
    let digits = digits.replace('.', "");
    let places = exponent.parse::<usize>().map_or(0, |exponent| exponent + 1);
    format!("{sign}{digits:0<places$}")
}

/// The digits of a word of a decimal.
const DIGITS: usize = 9;
/// The most digits of a decimal before and after its point.
const MOST_DIGITS: usize = 81;
/// The offset of a decimal's words, after three numbers, the sign and an address.
const DECIMAL_WORDS: usize = 24;

/// Formats `my_decimal`: the numbers of digits before and after the point, the sign, then words of nine
/// digits.
fn decimal(value: &[u8]) -> Option<String> {
    let number = |at: usize| value.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
    let (whole, fraction) = (number(0)? as usize, number(4)? as usize);
    if whole > MOST_DIGITS || fraction > MOST_DIGITS {
        return None;
    }
    let whole_words = whole.div_ceil(DIGITS);
    let digits = |words: std::ops::Range<usize>| -> Option<String> {
        words.map(|at| Some(format!("{:09}", number(DECIMAL_WORDS + at * 4)?))).collect()
    };
    let before = digits(0..whole_words)?;
    let behind = digits(whole_words..whole_words + fraction.div_ceil(DIGITS))?;
    let before = before.trim_start_matches('0');
    let sign = if *value.get(12)? != 0 { "-" } else { "" };
    let before = if before.is_empty() { "0" } else { before };
    Some(match fraction {
        0 => format!("{sign}{before}"),
        fraction => format!("{sign}{before}.{}", behind.get(..fraction)?),
    })
}

static LAYOUT: OnceLock<Result<UserVariableLayout, LayoutError>> = OnceLock::new();

/// Finds where sessions have their variables. Must run before the first connection.
pub(crate) fn select(series: Series) -> Result<(), &'static LayoutError> {
    LAYOUT.get_or_init(|| UserVariableLayout::prove(series)).as_ref().map(|_| ())
}

/// Reads the variables of a session; empty if their offset is not known, `None` if they changed meanwhile.
pub(crate) fn read(session: Session) -> Option<Vec<(String, SessionValue)>> {
    let Some(Ok(layout)) = LAYOUT.get() else { return Some(Vec::new()) };
    let first = layout.look(session)?;
    (layout.look(session)? == first && session::is(session)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values seen on the built-in of 10.11.19.
    #[test]
    fn numbers_with_a_fraction_are_shown_without_it() {
        let shown = [
            (1.5, "2"),
            (2.5, "2"),
            (-7.0, "-7"),
            (0.0, "0"),
            (0.5, "0."),
            (1e-5, "0."),
            (-0.4, "-0."),
            (0.7, "1"),
            (1e15, "1000000000000000"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (1e23, "100000000000000000000000"),
            (-1e20, "-100000000000000000000"),
        ];
        for (number, text) in shown {
            assert_eq!(rounded(number), text);
        }
        assert_eq!(rounded(f64::MAX), format!("17976931348623157{}", "0".repeat(292)));
    }

    fn decimal_of(whole: u32, fraction: u32, negative: bool, words: &[u32]) -> Vec<u8> {
        let head = [whole, fraction, 9, u32::from(negative), 0, 0];
        head.iter().chain(words).flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn decimals_are_shown_digit_by_digit() {
        let shown =
            |whole, fraction, negative, words: &[u32]| decimal(&decimal_of(whole, fraction, negative, words));
        let big = shown(20, 5, false, &[12, 345_678_901, 234_567_890, 123_450_000]);
        assert_eq!(big.as_deref(), Some("12345678901234567890.12345"));
        assert_eq!(shown(0, 1, true, &[500_000_000]).as_deref(), Some("-0.5"));
        assert_eq!(shown(1, 2, false, &[0, 100_000_000]).as_deref(), Some("0.10"));
        assert_eq!(shown(3, 0, false, &[7]).as_deref(), Some("7"));
        assert_eq!(shown(82, 0, false, &[7; 10]), None, "more than there can be");
        assert_eq!(shown(10, 0, false, &[7]), None, "cut off");
    }

    /// A session owned by this test, with memory laid out like the server's.
    struct OwnSession {
        layout: UserVariableLayout,
        thd: Vec<u64>,
        _links: Vec<u64>,
        entry: Box<[u64; 12]>,
    }

    const CHARSET: u64 = 77;
    const SIGNED: usize = 1;
    const TEXT: usize = 2;

    /// Writes a number, which is small or fills a word, into the hash after a session's first two words.
    fn put(thd: &mut [u64], at: usize, number: u64) {
        let (word, shift) = (&mut thd[2 + at / 8], at % 8 * 8);
        *word = if shift == 0 { number } else { (*word & ((1 << shift) - 1)) | (number << shift) };
    }

    impl OwnSession {
        fn new(series: Series) -> OwnSession {
            let hash = Hash::of(series);
            let charset: &'static u64 = Box::leak(Box::new(CHARSET));
            let layout = UserVariableLayout {
                variables: 16,
                statement: 8,
                charset: std::ptr::from_ref(charset).addr(),
                hash,
                types: vec![(SIGNED, UserVariableType::Signed), (TEXT, UserVariableType::Text)],
            };
            let mut entry = Box::new([0; 12]);
            let at = entry.as_ptr().addr() as u64;
            entry[..8].copy_from_slice(&[SIGNED as u64, 0, at + 72, 2, at + 64, 8, 50, 0]);
            entry[8] = 5;
            entry[9] = u64::from_le_bytes(*b"ab\0\0\0\0\0\0");
            let links = vec![0, at];
            let mut thd = vec![0; 18];
            thd[1] = 60;
            for (at, word) in [
                (Hash::RECORDS, 1),
                (Hash::LINKS, links.as_ptr().addr() as u64),
                (Hash::ELEMENTS, 1),
                (hash.link_bytes(), LINK as u64),
                (hash.charset(), CHARSET),
            ] {
                put(&mut thd, at, word);
            }
            OwnSession { layout, thd, _links: links, entry }
        }

        fn variable(&self, command: u32) -> Option<(String, SessionValue)> {
            let at = self.entry.as_ptr().addr();
            let session = Session { handle: 0, processlist_id: 1, command: Some(command) };
            self.layout.variable(at, session, self.thd[1])
        }
    }

    #[test]
    fn a_variable_is_read_where_it_stands_still() {
        let mut own = OwnSession::new(Series::V10_11);
        let text = |text: &str| SessionValue::Text(text.as_bytes().to_vec());
        assert_eq!(own.variable(3), Some(("ab".to_owned(), text("5"))));
        // The current statement may set the variable: a number is always whole, a text is not.
        own.entry[6] = 60;
        assert_eq!(own.variable(3), Some(("ab".to_owned(), text("5"))));
        own.entry[0] = TEXT as u64;
        own.entry[5] = 1;
        assert_eq!(own.variable(3), Some(("ab".to_owned(), SessionValue::Changing)));
        assert_eq!(own.variable(0), Some(("ab".to_owned(), text("\u{5}"))), "asleep");
        own.entry[4] = 0;
        assert_eq!(own.variable(3), Some(("ab".to_owned(), SessionValue::Null)));
    }

    #[test]
    fn what_is_no_variable_is_not_read() {
        for (at, word) in [(0, 9), (2, 0), (3, 193), (4, 16), (5, 7)] {
            let mut own = OwnSession::new(Series::V10_11);
            own.entry[at] = word;
            assert_eq!(own.variable(0), None, "word {at}");
        }
    }

    #[test]
    fn a_table_of_variables_is_believed_only_when_everything_agrees() {
        for series in Series::ALL {
            let (own, hash) = (OwnSession::new(series), Hash::of(series));
            let session = |own: &OwnSession| Session {
                handle: own.thd.as_ptr().addr() as u64,
                processlist_id: 1,
                command: None,
            };
            let found = ("ab".to_owned(), SessionValue::Text(b"5".to_vec()));
            assert_eq!(own.layout.look(session(&own)), Some(vec![found]));
            for (at, word) in
                [(hash.link_bytes(), 8), (Hash::ELEMENTS, 2), (hash.charset(), 1), (Hash::LINKS, 16)]
            {
                let mut own = OwnSession::new(series);
                put(&mut own.thd, at, word);
                assert_eq!(own.layout.look(session(&own)), None);
            }
        }
    }
}
