//! The page of a scrape while it is sent.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body, Bytes, Frame};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::format::ExpositionFormat;
use super::scrape::ScrapeResult;

/// Time limit for sending.
const LIMIT: Duration = Duration::from_secs(30);

/// A page that is rendered while it is sent, a family at a time: a slow client keeps figures in memory, not
/// text. It holds the request's permit until it is sent, or until the time limit: then it fails, and its
/// connection is closed.
pub(super) struct MetricsPage {
    look: ScrapeResult,
    format: ExpositionFormat,
    /// Number of families rendered so far.
    written: usize,
    packer: Option<GzEncoder<Vec<u8>>>,
    /// End of the time limit, known once sending has begun.
    until: Option<Instant>,
    _place: OwnedSemaphorePermit,
}

impl MetricsPage {
    pub(super) fn new(
        look: ScrapeResult,
        format: ExpositionFormat,
        is_packed: bool,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let packer = is_packed.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
        Self { look, format, written: 0, packer, until: None, _place: place }
    }

    /// Returns the next piece. The compressor keeps back what is not worth sending yet.
    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let Some(family) = self.format.family(&self.look, self.written) else {
                return self.packer.take().and_then(|packer| packer.finish().ok());
            };
            self.written += 1;
            let Some(packer) = &mut self.packer else { return Some(family) };
            // Writing to a Vec cannot fail.
            let _ = packer.write_all(&family);
            if !packer.get_ref().is_empty() {
                return Some(std::mem::take(packer.get_mut()));
            }
        }
    }
}

impl Body for MetricsPage {
    type Data = Bytes;
    type Error = io::Error;

    /// Returns the next frame. Called only when the client has taken the previous one, so a client that takes
    /// nothing at all is detected by the connection (`super::stream`), and one that takes too little here.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let now = Instant::now();
        if *self.until.get_or_insert(now + LIMIT) <= now {
            let why = format!("the page was not taken within {LIMIT:?}");
            return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, why))));
        }
        Poll::Ready(self.next().map(|part| Ok(Frame::data(part.into()))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;
    use std::time::SystemTime;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::export::sample::{MetricDescription, Samples};

    static COUNT: MetricDescription = MetricDescription::counter("count_total", "A count.");

    #[test]
    fn a_page_breaks_off_when_sending_takes_too_long() {
        let requests = Arc::new(Semaphore::new(1));
        let place = requests.clone().try_acquire_owned().expect("a place");
        let (mut server, mut own) = (Samples::default(), Samples::default());
        server.add(&COUNT, &[], 7_u64);
        own.add(&COUNT, &[], 8_u64);
        let look = ScrapeResult { server, own, started: None, at: SystemTime::now() };
        let mut page = MetricsPage::new(look, ExpositionFormat::Text, false, place);
        let next = |page: &mut MetricsPage| {
            let frame = Pin::new(page).poll_frame(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(frame) = frame else { panic!("it waits for nothing") };
            frame
        };
        let part = next(&mut page).expect("a part").expect("it is sent").into_data().expect("data");
        assert!(part.ends_with(b"count_total 7\n"), "{part:?}");
        let until = page.until.expect("it has begun");
        assert!(until > Instant::now(), "there is time");
        page.until = Some(until - LIMIT);
        let broken = next(&mut page).expect("not the end").expect_err("it is too late");
        assert_eq!(broken.kind(), io::ErrorKind::TimedOut);
        assert_eq!(requests.available_permits(), 0);
        drop(page);
        assert_eq!(requests.available_permits(), 1);
    }
}
