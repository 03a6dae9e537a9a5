//! Threads for work that may block for as long as a container or a registry likes: on a hanging file system, over a
//! tree of millions of files, on a slow transfer. Tokio's blocking pool is not used for it, because it has few threads,
//! which proxy, network and kubelet need too.

use std::io;

use tokio::sync::{Semaphore, oneshot};

/// Maximum number of threads, more than a kubelet needs at a time; further work waits.
const MOST: usize = 512;
static SLOTS: Semaphore = Semaphore::const_new(MOST);

/// Runs `work` on a thread of its own and awaits its result, without blocking a thread of the caller's runtime.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let slot = SLOTS.acquire().await.map_err(io::Error::other)?;
    let (done, result) = oneshot::channel();
    // boxed, so that the thread's code is compiled once per result type and not once per closure
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    std::thread::Builder::new().name("container-work".into()).spawn(move || {
        let _slot = slot;
        let _ = done.send(work()); // fails if the caller has gone away
    })?;
    result.await.map_err(|_| io::Error::other("the work panicked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_and_gives_its_slot_back() {
        let free = SLOTS.available_permits();
        run(|| panic!("on purpose")).await.map(|(): ()| ()).expect_err("a panic");
        assert_eq!(run(|| 7).await.expect("a number"), 7);
        for _ in 0..1000 {
            if SLOTS.available_permits() >= free {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("a slot is lost");
    }
}
