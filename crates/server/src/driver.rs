//! Keeps Tokio's I/O driver running while a request computes.
//!
//! A worker of Tokio that waited for I/O and finds a single task ready runs it without waking
//! another worker. As long as that task computes, no worker waits for I/O: the server accepts
//! no connection and reads no request, however many processors are idle. So, while requests
//! are in flight, a thread schedules an empty task now and then. It wakes an idle worker, which
//! then waits for I/O. When no request is in flight, the thread sleeps.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::warn;

/// The longest time for which no worker polls for I/O.
const INTERVAL: Duration = Duration::from_millis(50);

/// Counts the requests in flight, and owns the thread that wakes the runtime while there are some.
#[derive(Debug, Default)]
pub(crate) struct DriverWatch {
    state: Arc<State>,
    thread: OnceLock<Option<Thread>>,
}

#[derive(Debug, Default)]
struct State {
    in_flight: AtomicUsize,
    is_stopped: AtomicBool,
}

/// A request in flight, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestInFlight(Arc<State>);

impl DriverWatch {
    /// Counts a request. Must be called inside the runtime that handles it.
    pub(crate) fn enter(&self) -> RequestInFlight {
        if self.state.in_flight.fetch_add(1, Ordering::Relaxed) == 0
            && let Some(thread) = self.thread.get_or_init(|| start(self.state.clone()))
        {
            thread.unpark();
        }
        RequestInFlight(self.state.clone())
    }
}

impl Drop for DriverWatch {
    fn drop(&mut self) {
        self.state.is_stopped.store(true, Ordering::Relaxed);
        if let Some(Some(thread)) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts the thread; `None` if the runtime has a single thread, or no thread can be started.
fn start(state: Arc<State>) -> Option<Thread> {
    let runtime = Handle::try_current().ok()?;
    if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
        return None;
    }
    let spawned = thread::Builder::new().name("io-driver".to_owned()).spawn(move || {
        while !state.is_stopped.load(Ordering::Relaxed) {
            if state.in_flight.load(Ordering::Relaxed) == 0 {
                thread::park();
                continue;
            }
            thread::sleep(INTERVAL);
            if state.in_flight.load(Ordering::Relaxed) > 0 {
                drop(runtime.spawn(async {})); // wakes a worker, and ends at once
            }
        }
    });
    let failed = |error: &std::io::Error| warn!(%error, "cannot start the I/O driver thread; long requests may delay others");
    spawned.inspect_err(failed).ok().map(|spawned| spawned.thread().clone())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
        sync::mpsc,
    };

    use tokio::{io::AsyncReadExt, net::TcpListener, runtime::Builder};

    use super::*;

    /// Answers `p` with a response. At `b` it computes, in the worker, until the test releases it.
    async fn serve(listener: TcpListener, release: mpsc::Receiver<()>) {
        let watch = DriverWatch::default();
        let mut release = Some(release);
        while let Ok((mut stream, _)) = listener.accept().await {
            let _in_flight = watch.enter();
            match stream.read_u8().await {
                Ok(b'b') => {
                    let (in_flight, release) = (watch.enter(), release.take().expect("once"));
                    drop(Handle::current().spawn(async move {
                        let _ = release.recv_timeout(Duration::from_secs(90));
                        drop(in_flight);
                    }));
                }
                _ => drop(stream.try_write(b"p")),
            }
        }
    }

    #[test]
    fn connections_go_on_while_one_request_computes() {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let at = listener.local_addr().expect("an address");
        let (release, released) = mpsc::channel();
        drop(runtime.spawn(serve(listener, released)));
        let ask = |what: &[u8]| {
            let mut stream = TcpStream::connect(at).expect("a connection");
            stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a timeout");
            stream.write_all(what).expect("a request");
            stream
        };
        let mut answer = [0];
        ask(b"p").read_exact(&mut answer).expect("an answer while nothing else runs");
        let _busy = ask(b"b");
        thread::sleep(Duration::from_millis(300)); // the worker computes by now, or soon
        for _ in 0..3 {
            ask(b"p").read_exact(&mut answer).expect("an answer while a worker computes");
        }
        drop(release);
        runtime.shutdown_background();
    }
}
