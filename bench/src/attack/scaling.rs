//! Whether the time that a request takes grows faster than the list that it brings. Seconds depend on the machine and on how
//! the program was built; the ratio does not.

use std::time::Duration;

use anyhow::Result;

use super::{
    judge::Fault,
    request::{Body, Request},
    world::{World, cpu},
};

/// Shorter lists say nothing.
const LEAST_ITEMS: usize = 2000;
/// The list is sent again, so much shorter.
const SHORTER: usize = 4;
/// What is linear takes four times as long for four times as much, what is quadratic sixteen times.
const RATIO: u32 = 8;
const LEAST_TIME: Duration = Duration::from_millis(100);
/// The clock of the kernel counts hundredths of a second, and others work in the same process.
const MEASUREMENTS: u32 = 3;

/// Sends the request again with a shorter list, as a dry run, if it took a while. `spent`: processor time.
pub(crate) async fn check(
    world: &World,
    request: &Request,
    (spent, patience): (Duration, Duration),
) -> Result<Option<Fault>> {
    let Some(shorter) = shorter(request).filter(|_| spent > LEAST_TIME) else { return Ok(None) };
    let measure = async |request: &Request| -> Result<Duration> {
        let before = cpu();
        world.send(request, patience).await?;
        Ok(cpu().saturating_sub(before))
    };
    if !grows_too_fast(spent, measure(&shorter).await?) {
        return Ok(None);
    }
    let whole = dry(request);
    let (mut long, mut short) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..MEASUREMENTS {
        long += measure(&whole).await?;
        short += measure(&shorter).await?;
    }
    if long < LEAST_TIME * MEASUREMENTS || !grows_too_fast(long, short) {
        return Ok(None);
    }
    let (path, count) = (request.bare_path(), MEASUREMENTS);
    let text = format!(
        "POST {path}: {count} requests took {long:?} of processor time, and {short:?} with lists {SHORTER} times shorter"
    );
    let collection = path.rsplit('/').next().unwrap_or_default();
    Ok(Some(Fault::new(format!("slow: POST {collection}, faster than its list grows"), text)))
}

fn grows_too_fast(long: Duration, short: Duration) -> bool {
    long > short.max(Duration::from_millis(10)) * RATIO
}

/// The same request with a shorter list, as a dry run; `None` where there is no long list.
fn shorter(request: &Request) -> Option<Request> {
    let Body::Text(text) = &request.body else { return None };
    let mut found = false;
    let parts: Vec<String> = text
        .split("⟦many ")
        .enumerate()
        .map(|(at, part)| {
            let (count, rest) = part.split_once(' ').unwrap_or((part, ""));
            let long = count.parse::<usize>().ok().filter(|count| *count >= LEAST_ITEMS);
            match long.filter(|_| at > 0) {
                Some(count) => {
                    found = true;
                    format!("{} {rest}", count / SHORTER)
                }
                None => part.to_owned(),
            }
        })
        .collect();
    let mut other = dry(request);
    other.body = Body::Text(parts.join("⟦many "));
    (found && request.method == "POST").then_some(other)
}

fn dry(request: &Request) -> Request {
    let sign = if request.path.contains('?') { '&' } else { '?' };
    Request { path: format!("{}{sign}dryRun=All", request.path), ..request.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::{expand::many, request::Caller};

    #[test]
    fn long_lists_become_shorter() {
        let post = |text: String| Request::new(Caller::Admin, "POST", "/api/v1/pods").json(text);
        let list = |count| format!(r#"{{"a":"{}","b":"{}"}}"#, many(count, "1"), many(5, "2"));
        let other = shorter(&post(list(8000))).expect("a long list");
        assert_eq!(other.path, "/api/v1/pods?dryRun=All");
        assert!(matches!(&other.body, Body::Text(text) if *text == list(2000)), "{other:?}");
        assert!(shorter(&post(list(100))).is_none());
        assert!(shorter(&Request::new(Caller::Admin, "GET", "/api")).is_none());
    }

    #[test]
    fn only_more_than_linear_is_too_fast() {
        let ms = Duration::from_millis;
        assert!(!grows_too_fast(ms(400), ms(100)), "linear");
        assert!(!grows_too_fast(ms(75), ms(0)), "too short to be measured");
        assert!(grows_too_fast(ms(1600), ms(100)), "quadratic");
    }
}
