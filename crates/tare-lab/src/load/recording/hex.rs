//! Bytes as hexadecimal digits.

/// Formats bytes as digits.
pub(super) fn of(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _infallible = write!(digits, "{byte:02x}");
    }
    digits
}

/// Parses digits in either case; `None` if they are invalid.
pub(super) fn read(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let pairs = digits.chunks(2).map(|pair| Some(value(pair[0])? << 4 | value(*pair.get(1)?)?));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_their_digits() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(read(&of(&all)), Some(all));
        assert_eq!((read("Fe"), read("f"), read("0x"), read("é")), (Some(vec![0xfe]), None, None, None));
    }
}
