//! An API server for tests: objects by path, revisions and watches; no kinds, no validation. It can lag, stop, and
//! compact its history.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use client::{Client, Config, PipeConnector};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use object::{ResourceRef, Status, Value, from_json, to_json};
use tokio::{io::DuplexStream, sync::mpsc, task::JoinSet, time::sleep};

type Body = UnsyncBoxBody<Bytes, Infallible>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Server(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Value>,
    log: Vec<(String, &'static str, Value)>,
    revision: u64,
    /// Watches from before this revision are rejected.
    floor: u64,
    lag: Duration,
    watchers: Vec<(String, mpsc::Sender<Bytes>)>,
}

impl Server {
    /// A client, served as long as `tasks` lives.
    pub(crate) fn client(&self, tasks: &mut JoinSet<()>) -> Client {
        let (pipe, ends) = PipeConnector::new();
        tasks.spawn(self.clone().serve(ends));
        Client::new(Config::pipe(pipe))
    }

    pub(crate) async fn serve(self, mut ends: mpsc::Receiver<DuplexStream>) {
        let mut connections = JoinSet::new();
        while let Some(end) = ends.recv().await {
            let this = self.clone();
            connections.spawn(async move {
                let service = service_fn(move |request| {
                    let this = this.clone();
                    async move { Ok::<_, Infallible>(this.answer(request).await) }
                });
                let builder = auto::Builder::new(TokioExecutor::new());
                drop(builder.serve_connection(TokioIo::new(end), service).await);
            });
        }
    }

    /// Delays every watch event by that long from now on.
    pub(crate) fn lag(&self, lag: Duration) {
        self.0.lock().unwrap().lag = lag;
    }

    /// Ends all watches, and compacts the history.
    pub(crate) fn compact(&self) {
        let mut state = self.0.lock().unwrap();
        state.watchers.clear();
        state.floor = state.revision;
    }

    /// The number of writes: each has its own revision.
    pub(crate) fn writes(&self) -> u64 {
        self.0.lock().unwrap().revision
    }

    pub(crate) fn all(&self, plural: &str) -> Vec<Value> {
        let state = self.0.lock().unwrap();
        let part = format!("/{plural}/");
        state
            .objects
            .iter()
            .filter(|(path, _)| path.contains(&part))
            .map(|(_, o)| o.clone())
            .collect()
    }

    /// Changes an object directly.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.0.lock().unwrap().write(path, "MODIFIED", object);
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let (path, query) =
            (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
        let body = body.collect().await.unwrap().to_bytes();
        let body = from_json(&body).unwrap_or_default();
        if query.contains("watch=true") {
            return self.watch(&path, &query);
        }
        let answer = self.0.lock().unwrap().call(&head.method, &path, body);
        match answer {
            Ok(object) => reply(200, &object),
            Err(status) => reply(status.code().try_into().unwrap(), &tagged(status)),
        }
    }

    fn watch(&self, path: &str, query: &str) -> Response<Body> {
        let mut state = self.0.lock().unwrap();
        let (send, mut events) = mpsc::channel(10_000);
        let plural = format!("/{}/", path.rsplit('/').next().unwrap());
        let after = query.split('&').find_map(|word| word.strip_prefix("resourceVersion="));
        if let Some(after) = after {
            let after: u64 = after.parse().unwrap();
            if after < state.floor {
                return reply(410, &tagged(Status::expired("too old")));
            }
            for (at, what, object) in &state.log {
                if at.contains(&plural) && revision(object) > after {
                    send.try_send(event(what, object)).unwrap();
                }
            }
        } else {
            for (at, object) in &state.objects {
                if at.contains(&plural) {
                    send.try_send(event("ADDED", object)).unwrap();
                }
            }
            let text = format!(
                r#"{{"metadata":{{"resourceVersion":"{}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}"#,
                state.revision
            );
            send.try_send(event("BOOKMARK", &from_json(text.as_bytes()).unwrap())).unwrap();
        }
        state.watchers.push((plural, send));
        let lag = state.lag;
        let stream = futures_util::stream::poll_fn(move |cx| events.poll_recv(cx));
        let stream = futures_util::StreamExt::then(stream, move |bytes| async move {
            sleep(lag).await;
            Ok(Frame::data(bytes))
        });
        Response::new(StreamBody::new(stream).boxed_unsync())
    }
}

impl State {
    fn call(&mut self, method: &Method, path: &str, mut body: Value) -> Result<Value, Status> {
        let subject = ResourceRef { group: "", resource: "objects", name: path };
        let path = path.strip_suffix("/status").unwrap_or(path);
        let missing = || Status::not_found(subject);
        match *method {
            Method::GET => self.objects.get(path).cloned().ok_or_else(missing),
            Method::POST => {
                let meta = &body["metadata"];
                let made =
                    || format!("{}{}", meta["generateName"].as_str().unwrap(), self.revision);
                let name = meta["name"].as_str().map_or_else(made, str::to_owned);
                let path = format!("{path}/{name}");
                if self.objects.contains_key(&path) {
                    return Err(Status::already_exists(subject));
                }
                body["metadata"]["name"] = name.into();
                body["metadata"]["uid"] = format!("uid-{}", self.revision + 1).into();
                Ok(self.write(&path, "ADDED", body))
            }
            Method::PUT => {
                let old = self.objects.get(path).ok_or_else(missing)?;
                let given = body["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                if !given.is_empty() && Some(given) != old["metadata"]["resourceVersion"].as_str() {
                    return Err(Status::optimistic_lock_conflict(subject));
                }
                Ok(self.write(path, "MODIFIED", body))
            }
            Method::PATCH => {
                let mut new = self.objects.get(path).cloned().ok_or_else(missing)?;
                body.entries().for_each(|(name, value)| new[name] = value.clone());
                Ok(self.write(path, "MODIFIED", new))
            }
            _ => {
                let old = self.objects.get(path).cloned().ok_or_else(missing)?;
                self.write(path, "DELETED", old);
                Ok(tagged(Status::success()))
            }
        }
    }

    fn write(&mut self, path: &str, what: &'static str, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        match what {
            "DELETED" => drop(self.objects.remove(path)),
            _ => drop(self.objects.insert(path.to_owned(), object.clone())),
        }
        self.log.push((path.to_owned(), what, object.clone()));
        self.watchers.retain(|(part, watcher)| {
            !path.contains(part) || watcher.try_send(event(what, &object)).is_ok()
        });
        object
    }
}

fn event(what: &str, object: &Value) -> Bytes {
    let mut event = Value::object();
    event["type"] = what.into();
    event["object"] = object.clone();
    let mut line = to_json(&event);
    line.push(b'\n');
    line.into()
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn tagged(status: Status) -> Value {
    let mut tree = Value::from(status);
    tree["kind"] = "Status".into();
    tree["apiVersion"] = "v1".into();
    tree
}

fn reply(code: u16, object: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(to_json(object))).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}
