//! Decoding of a request's path and parameters.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Decodes a path: `/%6Detrics` is `/metrics`.
pub(super) fn path(sent: &str) -> Cow<'_, str> {
    percent_decode_str(sent).decode_utf8_lossy()
}

/// Returns the values of a parameter, in order: it may occur several times, and its name may be escaped, too.
pub(super) fn values(query: &str, name: &str) -> Vec<String> {
    let all = form_urlencoded::parse(query.as_bytes());
    all.filter(|(it, _)| it == name).map(|(_, value)| value.into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        for query in [
            "collect[]=perf_schema.a&collect[]=b%20c",
            "collect%5B%5D=perf%5Fschema.a&x=1&collect%5b%5d=b+c",
            "&&collect[%5d=%70erf_schema%2Ea&collect[=no&collect=no&%63ollect[]=b%20c&",
        ] {
            assert_eq!(values(query, "collect[]"), ["perf_schema.a", "b c"], "{query}");
        }
        assert!(values("", "collect[]").is_empty());
        assert_eq!(values("collect[]&collect[]=&collect[]=a=b%", "collect[]"), ["", "", "a=b%"]);
        assert_eq!(values("target=%C3%A9%2B%26%FF", "target"), ["é+&\u{fffd}"]);
    }

    #[test]
    fn paths_are_decoded_and_a_plus_is_one() {
        assert_eq!(path("/%6Detrics"), "/metrics");
        assert_eq!(path("/a+b%20c%2Fd"), "/a+b c/d");
        assert_eq!(path("/100%"), "/100%");
    }
}
