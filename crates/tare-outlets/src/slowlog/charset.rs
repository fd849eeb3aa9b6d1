//! Character sets by the numbers of their collations.

/// Collations that a client's character set may have, by the set's name, without UTF-8, the default of logs.
const NAMES: [(&str, &[u64]); 27] = [
    ("big5", &[1, 84]),
    ("cp850", &[4, 80]),
    ("latin1", &[5, 8, 15, 31, 47, 48, 49, 94]),
    ("koi8r", &[7, 74]),
    ("latin2", &[2, 9, 21, 27, 77]),
    ("ascii", &[11, 65]),
    ("ujis", &[12, 91]),
    ("sjis", &[13, 88]),
    ("hebrew", &[16, 71]),
    ("tis620", &[18, 89]),
    ("euckr", &[19, 85]),
    ("koi8u", &[22, 75]),
    ("gb2312", &[24, 86]),
    ("greek", &[25, 70]),
    ("cp1250", &[26, 34, 44, 66, 99]),
    ("gbk", &[28, 87]),
    ("latin5", &[30, 78]),
    ("cp866", &[36, 68]),
    ("macce", &[38, 43]),
    ("macroman", &[39, 53]),
    ("cp852", &[40, 81]),
    ("latin7", &[20, 41, 42, 79]),
    ("cp1251", &[14, 23, 50, 51, 52]),
    ("cp1257", &[29, 58, 59]),
    ("cp932", &[95, 96]),
    ("eucjpms", &[97, 98]),
    ("binary", &[63]),
];

/// Returns the name of a text's character set if it matters: the text is not ASCII, and the set is known and
/// not UTF-8.
pub(super) fn told(collation: u64, text: &[u8]) -> Option<&'static str> {
    if text.is_ascii() {
        return None;
    }
    NAMES.iter().find(|(_, numbers)| numbers.contains(&collation)).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_told_where_the_text_depends_on_it() {
        assert_eq!((told(8, b"select 'x'"), told(8, b"select '\xe9'")), (None, Some("latin1")));
        assert_eq!(
            (told(45, "é".as_bytes()), told(33, "é".as_bytes()), told(9999, b"\xff")),
            (None, None, None)
        );
    }
}
