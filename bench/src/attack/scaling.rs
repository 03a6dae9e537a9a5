//! Whether the CPU time of a request grows faster than its size. A request with a long list is sent with shorter lists
//! first, and the times are compared.

use std::time::Duration;

use anyhow::Result;

use super::{
    judge::Fault,
    request::{Body, Request},
    send::Answer,
    world::{World, cpu},
};

/// Lists shorter than this are not compared.
const SHORTEST: usize = 2000;
/// Part of a request's CPU time that may grow with the square of its size.
const QUADRATIC_PART: f64 = 0.4;
/// Quadratic CPU time that one request may take, as a part of what a request may take at all.
const QUADRATIC_TIME: f64 = 0.04;
const LIST: &str = "⟦many ";

/// Sends a request with a list of a quarter of its length and less, and with the whole list if these take suspiciously
/// long. Returns `None` if the request has no long list, else the last answer and a fault if the CPU time grows
/// with the square of the length.
pub(crate) async fn probe(
    world: &World,
    request: &Request,
    patience: Duration,
) -> Result<Option<(Answer, Option<Fault>)>> {
    let Some(length) = list_length(request).filter(|length| *length >= SHORTEST) else {
        return Ok(None);
    };
    let quarter = measure(world, request, length / 4, patience).await?;
    let sixteenth = measure(world, request, length / 16, patience).await?;
    let limit = patience.as_secs_f64() * QUADRATIC_TIME;
    // What is quadratic takes sixteen times as long with the whole list.
    let expected = 16.0 * quadratic(sixteenth.1, quarter.1);
    let suspicious = expected > limit || quarter.1 * 4.0 > patience.as_secs_f64() / 2.0;
    if !suspicious {
        return Ok(Some((quarter.0, None)));
    }
    // Other work of the process only adds to a time, so the shortest of several counts.
    let again = measure(world, request, length / 4, patience).await?.1;
    let (answer, whole) = measure(world, request, length, patience).await?;
    let whole = whole.min(measure(world, request, length, patience).await?.1);
    let quarter = quarter.1.min(again);
    let part = quadratic(quarter, whole);
    let fault = (part > limit && part > whole * QUADRATIC_PART).then(|| {
        let (method, path) = (&request.method, request.bare_path());
        Fault::new(
            format!("slow: {method} {}", path.rsplit('/').next().unwrap_or_default()),
            format!(
                "{method} {path}: {whole:.2} s of processor time for {length} items, {quarter:.2} s for a quarter of them"
            ),
        )
    });
    Ok(Some((answer, fault)))
}

/// The part of `whole` that is quadratic, if `quarter` is the time for a quarter of the items and the rest is linear.
fn quadratic(quarter: f64, whole: f64) -> f64 {
    ((whole - 4.0 * quarter) * 4.0 / 3.0).max(0.0)
}

/// Sends the request with a list of this length. Returns the answer and the CPU time in seconds.
async fn measure(
    world: &World,
    request: &Request,
    length: usize,
    patience: Duration,
) -> Result<(Answer, f64)> {
    let request = with_list_length(request, length);
    let before = cpu();
    let answer = world.send(&request, patience * 10).await?;
    Ok((answer, cpu().saturating_sub(before).as_secs_f64()))
}

/// The length of the first list in the body that is a placeholder.
fn list_length(request: &Request) -> Option<usize> {
    let Body::Text(text) = &request.body else { return None };
    text.split_once(LIST)?.1.split_once(' ')?.0.parse().ok()
}

fn with_list_length(request: &Request, length: usize) -> Request {
    let mut request = request.clone();
    if let Body::Text(text) = &mut request.body
        && let Some((before, behind)) = text.split_once(LIST)
        && let Some((_, items)) = behind.split_once(' ')
    {
        *text = format!("{before}{LIST}{length} {items}");
    }
    request
}

#[test]
fn the_quadratic_part_is_found_beside_a_linear_one() {
    assert!(quadratic(1.0, 4.0).abs() < 1e-9, "linear");
    assert!((quadratic(0.0625, 1.0) - 1.0).abs() < 1e-9, "quadratic");
    // 2 s linear and 5 s quadratic
    assert!((quadratic(0.5 + 5.0 / 16.0, 7.0) - 5.0).abs() < 1e-9);
    assert!(quadratic(1.0, 0.1).abs() < 1e-9, "noise");
}

#[test]
fn the_list_of_a_request_is_made_shorter() {
    use super::{expand::many, request::Caller};
    let text = format!(r#"{{"a":"{}","b":1}}"#, many(8000, "{}"));
    let request = Request::new(Caller::Admin, "POST", "/x").json(text);
    assert_eq!(list_length(&request), Some(8000));
    let shorter = with_list_length(&request, 2000);
    assert_eq!(list_length(&shorter), Some(2000));
    let Body::Text(text) = shorter.body else { panic!("a text") };
    assert!(text.ends_with(r#"","b":1}"#), "{text}");
}
