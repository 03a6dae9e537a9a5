//! Sends the requests of a case to a server, and reports where the response differs from the
//! recorded one.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use client::{ConnectionUse, Connector};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{
    sync::{Mutex, OnceCell},
    time::{Instant, sleep, timeout},
};

use super::{
    cases::{Cases, Saved, field, fill, recorded, substitute},
    json::{ABSENT, Json},
    normal,
};

type Sender = http1::SendRequest<Full<Bytes>>;

/// The response of a server.
struct Answer {
    code: u16,
    headers: HeaderMap,
    body: Bytes,
}

/// A fixture: the values saved from its responses, or why it could not be created.
type Fixture = Arc<OnceCell<Result<Saved, String>>>;

/// Sends cases to a server.
pub(crate) struct Replay {
    connector: Arc<dyn Connector>,
    /// The token of the user `oracle-admin`.
    token: String,
    cases: Cases,
    fixtures: Mutex<HashMap<String, Fixture>>,
    idle: Mutex<Vec<Sender>>,
}

impl Replay {
    pub(crate) async fn start(connector: Arc<dyn Connector>, token: &str, cases: Cases) -> Self {
        let (fixtures, idle) = (Mutex::default(), Mutex::default());
        let replay = Self { connector, token: token.to_owned(), cases, fixtures, idle };
        for request in &replay.cases.prelude {
            replay.send(request, &Saved::new()).await.expect("the prelude can be sent");
        }
        replay
    }

    pub(crate) fn cases(&self) -> &Cases {
        &self.cases
    }

    /// The first difference between the recorded response and the server's.
    pub(crate) async fn run(&self, case: &Json) -> Option<String> {
        match self.answer(case).await {
            Ok(answer) => difference(&recorded(case), &answer, ""),
            Err(error) => Some(format!("not run: {error}")),
        }
    }

    /// The normalized response to a case.
    pub(crate) async fn answer(&self, case: &Json) -> Result<Json, String> {
        let mut saved = Saved::new();
        for name in list(case, "needs") {
            saved.extend(self.need(name.text().unwrap_or_default()).await?);
        }
        let result = match self.prepare(case, &mut saved).await {
            Ok(()) => self.request(case, &mut saved).await,
            Err(error) => Err(error),
        };
        self.clean(case, &saved).await;
        result
    }

    async fn request(&self, case: &Json, saved: &mut Saved) -> Result<Json, String> {
        let request = case.get("request").expect("every case has a request");
        let managed = case.get("managed") == Some(&Json::Bool(true));
        if let Some(during) = request.get("during") {
            let (answer, events) = self.watch(request, during.items(), saved).await?;
            if let Some(events) = events {
                let mut out = Json::Null;
                out.set("code", Json::Number("200".to_owned()));
                out.set("events", normal::value(&Json::List(events), managed, ""));
                return Ok(out);
            }
            return Ok(normalized(case, &answer, managed));
        }
        Ok(normalized(case, &self.send(request, saved).await?, managed))
    }

    /// Creates a fixture, unless it exists.
    async fn need(&self, name: &str) -> Result<Saved, String> {
        let cell = Arc::clone(self.fixtures.lock().await.entry(name.to_owned()).or_default());
        let fixture = self.cases.fixtures.get(name).ok_or_else(|| format!("no fixture {name}"))?;
        let made = cell.get_or_init(|| async {
            let mut saved = Saved::new();
            for other in list(fixture, "needs") {
                saved.extend(Box::pin(self.need(other.text().unwrap_or_default())).await?);
            }
            self.prepare(fixture, &mut saved).await?;
            Ok(saved)
        });
        made.await.clone().map_err(|error| format!("fixture {name}: {error}"))
    }

    async fn prepare(&self, of: &Json, saved: &mut Saved) -> Result<(), String> {
        for step in list(of, "setup") {
            if rested(step).await {
                continue;
            }
            let until: Vec<_> = list(step, "until").iter().filter_map(Json::number).collect();
            let end = Instant::now() + Duration::from_mins(1);
            let answer = loop {
                let answer = self.send(step, saved).await?;
                if until.is_empty() || until.contains(&f64::from(answer.code)) {
                    break answer;
                }
                if Instant::now() > end {
                    return Err(format!("{}: still {}", field(step, "path"), answer.code));
                }
                sleep(Duration::from_millis(20)).await;
            };
            let any = step.get("any") == Some(&Json::Bool(true));
            if until.is_empty() && !any && answer.code >= 300 {
                let body = String::from_utf8_lossy(&answer.body).into_owned();
                return Err(format!("{}: {} {body}", field(step, "path"), answer.code));
            }
            save(step, &answer, saved);
        }
        Ok(())
    }

    async fn clean(&self, of: &Json, saved: &Saved) {
        for step in list(of, "cleanup") {
            // An object that does not exist needs no deletion.
            if !rested(step).await {
                drop(self.send(step, saved).await);
            }
        }
    }

    /// Deletes all fixtures.
    pub(crate) async fn finish(&self) {
        for (name, fixture) in self.fixtures.lock().await.drain() {
            let saved = fixture.get().and_then(|made| made.as_ref().ok().cloned());
            self.clean(&self.cases.fixtures[&name], &saved.unwrap_or_default()).await;
        }
    }

    async fn connect(&self) -> Result<Sender, String> {
        if let Some(sender) = self.idle.lock().await.pop() {
            return Ok(sender);
        }
        let connected = self.connector.connect(ConnectionUse::Upgrade).await;
        let io = connected.map_err(|error| error.to_string())?.io;
        let (sender, connection) =
            http1::handshake(TokioIo::new(io)).await.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn open(
        &self,
        request: &Json,
        saved: &Saved,
    ) -> Result<(Sender, http::Response<Incoming>), String> {
        let request = self.build(request, saved)?;
        loop {
            let mut sender = self.connect().await?;
            if sender.ready().await.is_err() {
                continue;
            }
            let answer = sender.send_request(request.clone()).await;
            return answer.map(|answer| (sender, answer)).map_err(|error| format!("{error:?}"));
        }
    }

    async fn send(&self, request: &Json, saved: &Saved) -> Result<Answer, String> {
        let (sender, answer) = self.open(request, saved).await?;
        let (head, body) = answer.into_parts();
        let body = timeout(Duration::from_mins(1), body.collect()).await;
        let body = body.map_err(|_| "no end".to_owned())?.map_err(|error| error.to_string())?;
        self.idle.lock().await.push(sender);
        Ok(Answer { code: head.status.as_u16(), headers: head.headers, body: body.to_bytes() })
    }

    fn build(&self, request: &Json, saved: &Saved) -> Result<Request<Full<Bytes>>, String> {
        let body = self.body(request, saved)?;
        let mut built = Request::builder()
            .method(field(request, "method"))
            .uri(fill(field(request, "path"), saved))
            .body(Full::new(body.clone().unwrap_or_default()))
            .map_err(|error| error.to_string())?;
        let mut headers = vec![("host", vec!["192.0.2.10:6443".to_owned()])];
        headers.push(("user-agent", vec!["oracle/1".to_owned()]));
        headers.push(("accept", vec!["application/json".to_owned()]));
        match request.get("auth").and_then(Json::text).unwrap_or("token") {
            "token" => headers.push(("authorization", vec![format!("Bearer {}", self.token)])),
            other => {
                if let Some(token) = other.strip_prefix("bearer ") {
                    let token = fill(token, saved);
                    headers.push(("authorization", vec![format!("Bearer {token}")]));
                }
            }
        }
        if body.is_some() {
            headers.push(("content-type", vec!["application/json".to_owned()]));
        }
        for (name, value) in request.get("headers").map(Json::entries).unwrap_or_default() {
            let values = match value {
                Json::List(values) => values.iter().filter_map(Json::text).collect(),
                other => other.text().into_iter().collect::<Vec<_>>(),
            };
            headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            headers.push((name, values.into_iter().map(|value| fill(value, saved)).collect()));
        }
        for (name, values) in headers {
            let name = http::HeaderName::try_from(name).map_err(|error| error.to_string())?;
            for value in values {
                let value =
                    http::HeaderValue::try_from(value).map_err(|error| error.to_string())?;
                built.headers_mut().append(&name, value);
            }
        }
        Ok(built)
    }

    fn body(&self, request: &Json, saved: &Saved) -> Result<Option<Bytes>, String> {
        let edits = |saved: &Saved| substitute(&Json::List(list(request, "edit").to_vec()), saved);
        let body = if let Some(raw) = request.get("raw") {
            return Ok(substitute(raw, saved).text().map(|raw| raw.to_owned().into()));
        } else if let Some(raw) = request.get("raw64").and_then(Json::text) {
            return STANDARD
                .decode(raw)
                .map(|raw| Some(raw.into()))
                .map_err(|error| error.to_string());
        } else if let Some(body) = request.get("body") {
            substitute(body, saved)
        } else if let Some(base) = request.get("base").and_then(Json::text) {
            let mut body = self.cases.bases.get(base).ok_or("no such base")?.clone();
            body.edit(list(request, "edit"));
            substitute(&body, saved)
        } else if let Some(name) = request.get("saved").and_then(Json::text) {
            let mut body =
                saved.get(name).ok_or_else(|| format!("nothing saved as {name}"))?.clone();
            body.edit(edits(saved).items());
            body
        } else {
            return Ok(None);
        };
        Ok(Some(body.print().into()))
    }

    /// Opens a watch, sends the requests that shall happen meanwhile, and reads events until the
    /// server closes it.
    async fn watch(
        &self,
        request: &Json,
        during: &[Json],
        saved: &mut Saved,
    ) -> Result<(Answer, Option<Vec<Json>>), String> {
        let limit = request.get("limit").and_then(Json::number).unwrap_or(10.0);
        let (_open, answer) = self.open(request, saved).await?;
        let (head, body) = answer.into_parts();
        let code = head.status.as_u16();
        if code != 200 {
            let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
            return Ok((Answer { code, headers: head.headers, body }, None));
        }
        let reading = tokio::spawn(timeout(Duration::from_secs_f64(limit), body.collect()));
        sleep(Duration::from_millis(200)).await;
        for step in during {
            let answer = self.send(step, saved).await?;
            save(step, &answer, saved);
            if let Some(pause) = step.get("pause").and_then(Json::number) {
                sleep(Duration::from_secs_f64(pause)).await;
            }
        }
        let read = reading.await.map_err(|error| error.to_string())?;
        let read = read.map_err(|_| "the watch has no end".to_owned())?;
        let body = read.map_err(|error| error.to_string())?.to_bytes();
        let text = String::from_utf8_lossy(&body);
        let events = text.lines().filter_map(Json::parse).collect();
        Ok((Answer { code, headers: head.headers, body: Bytes::new() }, Some(events)))
    }
}

/// Waits, if the step is a pause; returns whether it was one.
async fn rested(step: &Json) -> bool {
    let Some(seconds) = step.get("sleep").and_then(Json::number) else { return false };
    sleep(Duration::from_secs_f64(seconds)).await;
    true
}

fn list<'a>(of: &'a Json, key: &str) -> &'a [Json] {
    of.get(key).map(Json::items).unwrap_or_default()
}

fn save(step: &Json, answer: &Answer, saved: &mut Saved) {
    let Some(names) = step.get("save") else { return };
    let Some(body) = Json::parse(&String::from_utf8_lossy(&answer.body)) else { return };
    for (name, pointer) in names.entries() {
        if let Some(value) = body.at(pointer.text().unwrap_or_default()) {
            saved.insert(name.clone(), value.clone());
        }
    }
}

/// The normalized response, in the form in which it was recorded.
fn normalized(case: &Json, answer: &Answer, managed: bool) -> Json {
    let mut out = Json::Null;
    out.set("code", Json::Number(answer.code.to_string()));
    let text = |value: &http::HeaderValue| normal::text(&String::from_utf8_lossy(value.as_bytes()));
    let mut headers = Json::Map(vec![]);
    let warnings: Vec<_> =
        answer.headers.get_all("warning").iter().map(text).map(Json::Text).collect();
    if !warnings.is_empty() {
        headers.set("Warning", Json::List(warnings));
    }
    for name in list(case, "headers").iter().filter_map(Json::text) {
        if let Some(value) = answer.headers.get(name) {
            headers.set(name, Json::Text(text(value)));
        }
    }
    if !headers.entries().is_empty() {
        out.set("headers", headers);
    }
    if case.get("bodyless") == Some(&Json::Bool(true)) {
        return out;
    }
    let plain = String::from_utf8_lossy(&answer.body);
    let mut body = match Json::parse(&plain) {
        Some(body) => normal::value(&body, managed, ""),
        None => Json::Text(normal::text(&plain)),
    };
    for pointer in list(case, "sort").iter().filter_map(Json::text) {
        if let Some(Json::List(items)) = body.at(pointer) {
            let mut items = items.clone();
            items.sort_by_cached_key(normal::sorted_print);
            let mut step = Json::Null;
            step.set("op", Json::Text("replace".to_owned()));
            step.set("path", Json::Text(pointer.to_owned()));
            step.set("value", Json::List(items));
            body.edit(&[step]);
        }
    }
    if let (Some(view), true) = (case.get("view"), answer.code < 300) {
        let mut seen = Json::Map(vec![]);
        for pointer in view.items().iter().filter_map(Json::text) {
            let found = body.at(pointer).cloned();
            seen.set(pointer, found.unwrap_or_else(|| Json::Text(ABSENT.to_owned())));
        }
        body = seen;
    }
    out.set("body", body);
    out
}

/// The first difference of two responses.
pub(crate) fn difference(expected: &Json, found: &Json, at: &str) -> Option<String> {
    match (expected, found) {
        (Json::Map(one), Json::Map(other)) => {
            let mut seen = HashSet::new();
            let keys = one.iter().chain(other).map(|(key, _)| key);
            keys.filter(|key| seen.insert(key.as_str())).find_map(|key| {
                let absent = Json::Text(ABSENT.to_owned());
                let (one, other) = (expected.get(key), found.get(key));
                let at = format!("{at}/{key}");
                match (one, other) {
                    (Some(one), Some(other)) => difference(one, other, &at),
                    _ => Some(differing(&at, one.unwrap_or(&absent), other.unwrap_or(&absent))),
                }
            })
        }
        (Json::List(one), Json::List(other)) if one.len() == other.len() => one
            .iter()
            .zip(other)
            .enumerate()
            .find_map(|(nth, (one, other))| difference(one, other, &format!("{at}/{nth}"))),
        (Json::Number(one), Json::Number(other)) => {
            (one.parse::<f64>() != other.parse::<f64>()).then(|| differing(at, expected, found))
        }
        _ => (expected != found).then(|| differing(at, expected, found)),
    }
}

fn differing(at: &str, expected: &Json, found: &Json) -> String {
    let short = |value: &Json| value.print().chars().take(600).collect::<String>();
    format!("{at}\n    expected {}\n    found    {}", short(expected), short(found))
}
