//! The format of a page, negotiated by the header `Accept`.

use hyper::header::{self, HeaderMap};

use super::scrape::ScrapeResult;
use super::{protobuf, text};

/// A format of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// Prometheus's text format.
    Text,
    /// Protobuf, with native histograms.
    Protobuf,
}

impl ExpositionFormat {
    /// Returns protobuf if the client accepts it and does not prefer text; text otherwise.
    #[must_use]
    pub fn asked_for(headers: &HeaderMap) -> Self {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let weight_of = |is_it: fn(&str) -> bool| {
            let ranges = accept.split(',').filter(|range| is_it(&range.replace(' ', "").to_lowercase()));
            ranges.map(weight).fold(0.0, f32::max)
        };
        let protobuf = weight_of(|range| {
            let parts: Vec<&str> = range.split(';').collect();
            parts[0] == "application/vnd.google.protobuf"
                && parts.contains(&"proto=io.prometheus.client.metricfamily")
                && parts.contains(&"encoding=delimited")
        });
        let text = weight_of(|range| range.starts_with("text/plain") && !range.contains("version=1"));
        if protobuf > 0.0 && protobuf >= text { ExpositionFormat::Protobuf } else { ExpositionFormat::Text }
    }

    /// Returns its content type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            ExpositionFormat::Text => text::CONTENT_TYPE,
            ExpositionFormat::Protobuf => protobuf::CONTENT_TYPE,
        }
    }

    /// Renders the family with this index; `None` after the last one.
    #[must_use]
    pub fn family(self, look: &ScrapeResult, at: usize) -> Option<Vec<u8>> {
        let (samples, at) = match at.checked_sub(look.server.families()) {
            None => (&look.server, at),
            Some(at) if at < look.own.families() => (&look.own, at),
            Some(_) => return None,
        };
        Some(match self {
            ExpositionFormat::Text => {
                let mut family = String::new();
                text::write_family(&mut family, samples, at);
                family.into_bytes()
            }
            ExpositionFormat::Protobuf => protobuf::family(samples, at),
        })
    }
}

/// Returns the quality of a range in `Accept`.
fn weight(range: &str) -> f32 {
    let given = range.split(';').find_map(|it| it.trim().strip_prefix("q=")?.parse().ok());
    given.unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn protobuf_is_given_to_those_who_like_it_best() {
        let given = |accept| {
            ExpositionFormat::asked_for(&HeaderMap::from_iter([(
                header::ACCEPT,
                HeaderValue::from_static(accept),
            )]))
        };
        // The headers of Prometheus 2.42 and 3, with native histograms and without.
        let asked = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
            application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(given(asked), ExpositionFormat::Protobuf);
        let asked = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited;q=0.6,\
            text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1";
        assert_eq!(given(asked), ExpositionFormat::Protobuf);
        let asked = "text/plain;version=0.0.4;q=0.6,\
            application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.5";
        assert_eq!(given(asked), ExpositionFormat::Text);
        assert_eq!(
            given("application/openmetrics-text;version=1.0.0,text/plain;q=0.5,*/*;q=0.1"),
            ExpositionFormat::Text
        );
        assert_eq!(given("application/vnd.google.protobuf"), ExpositionFormat::Text);
        assert_eq!(given("*/*"), ExpositionFormat::Text);
        assert_eq!(ExpositionFormat::asked_for(&HeaderMap::new()), ExpositionFormat::Text);
    }
}
