//! A connection that requires its client to read what it is sent.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a client may leave sent data unread.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// A stream that fails if its client does not take all data within a time limit; hyper would wait forever.
pub(super) struct LimitedStream<S> {
    inner: S,
    limit: Duration,
    /// Timer from the first wait for the client until it has taken everything.
    late: Option<Pin<Box<Sleep>>>,
}

impl<S> LimitedStream<S> {
    pub(super) fn new(inner: S, limit: Duration) -> Self {
        Self { inner, limit, late: None }
    }

    /// Returns the result of sending, or an error once it has waited too long.
    fn judge<T>(&mut self, context: &mut Context<'_>, sent: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if sent.is_ready() {
            return sent;
        }
        let limit = self.limit;
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(limit)));
        late.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judge(context, sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.inner).poll_write_vectored(context, pieces);
        self.judge(context, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.inner).poll_flush(context);
        if sent.is_ready() {
            // hyper flushes when it has written everything.
            self.late = None;
        }
        self.judge(context, sent)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.inner).poll_shutdown(context);
        self.judge(context, sent)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::Full;
    use hyper::body::{Bytes, Incoming};
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper::{Request, Response};
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::timeout;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    /// A time longer than any test.
    const LONG: Duration = Duration::from_secs(60);

    fn block_on<T>(what: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async { timeout(LONG, what).await.expect("it ends") })
    }

    /// Answers requests with more than the buffer holds until the connection ends.
    async fn serve(stream: DuplexStream) -> hyper::Result<()> {
        let answer = service_fn(|_request: Request<Incoming>| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(vec![b'x'; 1 << 20]))))
        });
        http1::Builder::new().serve_connection(TokioIo::new(LimitedStream::new(stream, SHORT)), answer).await
    }

    #[test]
    fn a_client_that_takes_nothing_loses_its_connection() {
        let ended = block_on(async {
            let (mut client, server) = duplex(1024);
            client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("there is room");
            let ended = serve(server).await;
            drop(client);
            ended
        });
        assert!(ended.is_err(), "it was given up");
    }

    #[test]
    fn a_client_that_takes_everything_has_as_much_time_again() {
        block_on(async {
            let (mut client, server) = duplex(8);
            let mut stream = LimitedStream::new(server, LONG);
            stream.write_all(&[1; 8]).await.expect("there is room");
            assert!(stream.late.is_none());
            timeout(SHORT, stream.write_all(&[2; 8])).await.expect_err("there is no room");
            assert!(stream.late.is_some());
            client.read_exact(&mut [0; 8]).await.expect("all of it");
            stream.flush().await.expect("it is taken");
            assert!(stream.late.is_none());
        });
    }
}
