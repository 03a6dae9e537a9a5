//! Work that may block for as long as a container or a registry likes: on a file system that hangs, over a tree of
//! millions of files, for bytes that come one by one. It gets threads of its own. The pool that tokio keeps has few,
//! and proxy, network and kubelet wait for the same ones.

use std::io;

use tokio::sync::{Semaphore, oneshot};

/// More at a time than a kubelet asks for; what is above waits.
const MOST: usize = 512;
static SLOTS: Semaphore = Semaphore::const_new(MOST);

/// Runs `work` on a thread of its own and waits for what it gives, without holding a thread of the caller's.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let slot = SLOTS.acquire().await.map_err(io::Error::other)?;
    let (done, result) = oneshot::channel();
    // of one type for each answer, or the thread's part would be compiled for each work
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    std::thread::Builder::new().name("container-work".into()).spawn(move || {
        let _slot = slot;
        let _ = done.send(work()); // who has gone needs no answer
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
