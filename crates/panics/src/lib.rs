//! Boundaries that a panic does not cross: one request, one reconcile, one probe fails, and
//! nothing beside it. Every panic of the process is counted by the innermost boundary it
//! happened in, and logged with its place.

mod count;
mod hook;

use std::{
    cell::Cell,
    fmt,
    ops::DerefMut,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    process,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

pub use self::{
    count::{report, total},
    hook::install,
};

thread_local! {
    /// The innermost boundary that this thread is in.
    static PART: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Work that ended in a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// File, line and column; empty if the panic came from another thread.
    pub place: String,
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.place {
            "" => f.write_str("panicked"),
            place => write!(f, "panicked at {place}"),
        }
    }
}

impl std::error::Error for Panicked {}

/// Calls `work`. What it had locked or half changed is its own business: whoever shares
/// state with others leaves it whole before calling anything that can panic.
pub fn catch<T>(part: &'static str, work: impl FnOnce() -> T) -> Result<T, Panicked> {
    install();
    let inside = Inside::enter(part);
    let done = catch_unwind(AssertUnwindSafe(work));
    drop(inside);
    done.map_err(|_| hook::take_last())
}

/// Awaits `work`, each poll within the boundary.
pub fn contain<F: Future>(part: &'static str, work: F) -> Contained<Box<F>> {
    Contained { part, work: Box::pin(work) }
}

/// The same for work that is pinned already, and is not moved.
pub fn contain_pinned<'a, F: Future>(
    part: &'static str,
    work: Pin<&'a mut F>,
) -> Contained<&'a mut F> {
    Contained { part, work }
}

/// See [`contain`]. The work is kept apart: in place, each boundary would double its size.
#[derive(Debug)]
#[must_use = "nothing is done before it is awaited"]
pub struct Contained<P> {
    part: &'static str,
    work: Pin<P>,
}

impl<P: DerefMut<Target: Future> + Unpin> Future for Contained<P> {
    type Output = Result<<P::Target as Future>::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match catch(self.part, || self.work.as_mut().poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
            Err(panicked) => Poll::Ready(Err(panicked)),
        }
    }
}

/// Calls `work`, and ends the process if it panics: for what everything else relies on, and
/// what is made whole again at the next start.
pub fn or_abort<T>(part: &'static str, work: impl FnOnce() -> T) -> T {
    catch(part, work).unwrap_or_else(|_| abort())
}

/// Locks what must never be seen half changed: if a panic left it so, the process ends.
pub fn lock_or_abort<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|_| abort())
}

/// For tests of recovery: from now on a thread unwinds where this process would have ended, so
/// that the test can read the disk that the crash left.
pub fn unwind_instead_of_abort() {
    UNWINDS.store(true, Relaxed);
}

static UNWINDS: AtomicBool = AtomicBool::new(false);

fn abort() -> ! {
    if UNWINDS.load(Relaxed) {
        std::panic::resume_unwind(Box::new("the process would have ended"))
    }
    process::abort()
}

/// Says where the thread is, until it is dropped.
struct Inside(Option<&'static str>);

impl Inside {
    fn enter(part: &'static str) -> Self {
        Self(PART.replace(Some(part)))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        PART.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin, task::Waker, thread};

    use super::*;

    fn counted(part: &str) -> Option<String> {
        let mut text = String::new();
        report(&mut text);
        let start = format!("tiphys_panics_total{{part=\"{part}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&start).map(str::to_owned))
    }

    #[test]
    fn a_panic_is_caught_counted_and_placed() {
        assert_eq!(catch("a", || 7), Ok(7));
        assert_eq!(counted("a"), None);
        let panicked = catch("a", || panic!("no")).unwrap_err();
        assert!(panicked.to_string().contains("src/lib.rs:"), "{panicked}");
        assert_eq!(counted("a").as_deref(), Some("1"));
        assert!(total() >= 1);
    }

    #[test]
    fn the_innermost_boundary_counts() {
        let inner = catch("outer", || catch("inner", || panic!("no")));
        assert!(matches!(inner, Ok(Err(_))));
        assert_eq!((counted("inner").as_deref(), counted("outer")), (Some("1"), None));
        let _ = catch("outer", || panic!("after the inner one"));
        assert_eq!(counted("outer").as_deref(), Some("1"));
    }

    #[test]
    fn a_future_fails_alone() {
        let mut polls = 0;
        let work = poll_fn(|_| {
            polls += 1;
            assert!(polls < 2, "the second poll");
            Poll::<()>::Pending
        });
        let mut contained = pin!(contain("future", work));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(contained.as_mut().poll(&mut cx).is_pending());
        assert!(matches!(contained.as_mut().poll(&mut cx), Poll::Ready(Err(_))));
        assert_eq!(counted("future").as_deref(), Some("1"));
    }

    #[test]
    fn a_panic_outside_of_every_boundary_counts_too() {
        install();
        let before = counted("other");
        let _ = thread::spawn(|| panic!("nobody catches this")).join();
        assert_ne!(counted("other"), before);
    }
}
