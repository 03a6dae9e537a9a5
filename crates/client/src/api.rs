//! Access to all objects of one resource: typed (`Api::<Pod>::new`) or as `Value` (`Api::<Value>::for_resource`), with
//! the same methods.

use std::{collections::VecDeque, marker::PhantomData};

use bytes::Bytes;
use http::{HeaderMap, Method};
use object::{ListMeta, NamespacedName, Object, ObjectMeta, Text, Value, View, WriteCause};
use schema::Kind;
use tokio::time::timeout;

use crate::{
    ApiResource, Client, DeleteParams, DeleteResult, Error, ListParams, ObjectList, Patch,
    Selectors, Watch, WatchEvent, WatchStart, codec, resource::query, watch::watch_timeout_seconds,
};

/// Default page size of lists.
const DEFAULT_PAGE_SIZE: u32 = 500;

/// A `Value`, or a typed view of one.
pub trait ApiObject: From<Value> + Into<Value> + Send + 'static {}
impl<T: From<Value> + Into<Value> + Send + 'static> ApiObject for T {}

/// Access to the objects of one resource.
#[derive(Debug)]
pub struct Api<K> {
    client: Client,
    resource: ApiResource,
    namespace: Text,
    /// Additional query parameters of writes.
    write_params: Vec<(&'static str, Text)>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            write_params: self.write_params.clone(),
            kind: PhantomData,
        }
    }
}

impl<K: Kind> Api<K> {
    pub fn new(client: &Client) -> Self {
        Self::for_resource(client, ApiResource::of::<K>())
    }
}

impl<K: ApiObject> Api<K> {
    pub fn for_resource(client: &Client, resource: ApiResource) -> Self {
        let (namespace, words) = (Text::default(), Vec::new());
        Self { client: client.clone(), resource, namespace, write_params: words, kind: PhantomData }
    }

    /// Restricts the API to a namespace. It is the default for objects and keys without one.
    pub fn namespaced(&self, namespace: &str) -> Self {
        Self { namespace: namespace.into(), ..self.clone() }
    }

    /// The same API; its writes carry `cause` in a header.
    pub fn with_cause(&self, cause: &WriteCause) -> Self {
        Self { client: self.client.with_cause(cause), ..self.clone() }
    }

    /// The same API; its writes have an additional query parameter (dryRun, fieldValidation).
    pub fn with_write_param(&self, name: &'static str, value: &str) -> Self {
        let mut this = self.clone();
        this.write_params.push((name, value.into()));
        this
    }

    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub async fn get(&self, key: &NamespacedName) -> Result<K, Error> {
        let path = self.path(key)?;
        self.read(Method::GET, &path, codec::MEDIA_TYPE, Bytes::new()).await.map(K::from)
    }

    /// Lists one page of the selected objects.
    pub async fn list(
        &self,
        selection: &Selectors,
        page: &ListParams,
    ) -> Result<ObjectList<K>, Error> {
        let limit = if page.limit == 0 { String::new() } else { page.limit.to_string() };
        let asked = query(&[
            ("labelSelector", &selection.labels),
            ("fieldSelector", &selection.fields),
            ("limit", &limit),
            ("continue", &page.continue_),
            ("resourceVersion", &page.resource_version),
            ("resourceVersionMatch", &page.resource_version_match),
        ]);
        let path = self.resource.collection(&self.namespace)? + &asked;
        let tree = self.read(Method::GET, &path, codec::MEDIA_TYPE, Bytes::new()).await?;
        let meta = ListMeta::view(&tree["metadata"]);
        Ok(ObjectList {
            items: tree["items"]
                .items()
                .iter()
                .map(|item| K::from(self.with_type_meta(item.clone())))
                .collect(),
            revision: meta.resource_version().parse().unwrap_or_default(),
            continue_: meta.continue_().to_owned(),
            remaining: meta.remaining_item_count(),
        })
    }

    /// Lists all selected objects at one revision, page by page.
    pub async fn list_all(&self, selection: &Selectors) -> Result<ObjectList<K>, Error> {
        let mut page = ListParams { limit: DEFAULT_PAGE_SIZE, ..ListParams::default() };
        let mut all = self.list(selection, &page).await?;
        while !all.continue_.is_empty() {
            page.continue_ = std::mem::take(&mut all.continue_);
            let more = self.list(selection, &page).await?;
            all.items.extend(more.items);
            (all.continue_, all.remaining) = (more.continue_, more.remaining);
        }
        Ok(all)
    }

    pub async fn create(&self, object: K) -> Result<K, Error> {
        let object = self.with_type_meta(object.into());
        let path = self.resource.collection(self.namespace_of(&object))? + &self.write_query();
        self.read(Method::POST, &path, codec::MEDIA_TYPE, codec::encode(&object)).await.map(K::from)
    }

    /// Replaces an object. If it has a resourceVersion, that is a precondition.
    pub async fn update(&self, object: K) -> Result<K, Error> {
        self.replace(object.into(), "").await.map(K::from)
    }

    pub async fn update_status(&self, object: K) -> Result<K, Error> {
        self.replace(object.into(), "/status").await.map(K::from)
    }

    pub async fn patch(&self, key: &NamespacedName, patch: &Patch) -> Result<K, Error> {
        self.patch_at(&self.path(key)?, patch).await.map(K::from)
    }

    pub async fn patch_status(&self, key: &NamespacedName, patch: &Patch) -> Result<K, Error> {
        self.patch_at(&(self.path(key)? + "/status"), patch).await.map(K::from)
    }

    pub async fn delete(
        &self,
        key: &NamespacedName,
        delete: &DeleteParams,
    ) -> Result<DeleteResult<K>, Error> {
        let (path, body) = (self.path(key)?, codec::encode(&delete.body()));
        let tree = self.read(Method::DELETE, &path, codec::MEDIA_TYPE, body).await?;
        if codec::as_status(&tree).is_some() {
            return Ok(DeleteResult::Gone(None));
        }
        if meta(&tree).is_terminating() && !Object::view(&tree).is_ready_for_removal() {
            Ok(DeleteResult::Terminating(K::from(tree)))
        } else {
            Ok(DeleteResult::Gone(Some(K::from(tree))))
        }
    }

    /// Deletes all selected objects.
    pub async fn delete_collection(
        &self,
        selection: &Selectors,
        delete: &DeleteParams,
    ) -> Result<(), Error> {
        let asked =
            query(&[("labelSelector", &selection.labels), ("fieldSelector", &selection.fields)]);
        let path = self.resource.collection(&self.namespace)? + &asked;
        let body = codec::encode(&delete.body());
        self.read(Method::DELETE, &path, codec::MEDIA_TYPE, body).await.map(drop)
    }

    /// Starts a watch. If the server does not support sendInitialEvents, lists first.
    pub async fn watch(&self, selection: &Selectors, start: WatchStart) -> Result<Watch<K>, Error> {
        match self.open_watch(selection, start).await {
            Err(error)
                if start == WatchStart::List && (error.is_invalid() || error.is_bad_request()) =>
            {
                let list = self.list_all(selection).await?;
                let added = list.items.into_iter().map(|item| WatchEvent::Added(item.into()));
                let mut first: VecDeque<_> = added.collect();
                first.push_back(WatchEvent::Bookmark { revision: list.revision, complete: true });
                let watch = self.open_watch(selection, WatchStart::After(list.revision)).await?;
                Ok(watch.with_initial_events(first))
            }
            opened => opened,
        }
    }

    pub async fn get_subresource(&self, key: &NamespacedName, name: &str) -> Result<Value, Error> {
        let path = format!("{}/{name}", self.path(key)?);
        self.client.call(Method::GET, &path, codec::MEDIA_TYPE, Bytes::new()).await
    }

    /// Creates a subresource: `binding`, `eviction`, `token`.
    pub async fn create_subresource(
        &self,
        key: &NamespacedName,
        name: &str,
        body: &Value,
    ) -> Result<Value, Error> {
        let path = format!("{}/{name}{}", self.path(key)?, self.write_query());
        self.client.call(Method::POST, &path, codec::MEDIA_TYPE, codec::encode(body)).await
    }

    /// Updates a subresource: `scale`, `status`, `approval`.
    pub async fn update_subresource(
        &self,
        key: &NamespacedName,
        name: &str,
        body: &Value,
    ) -> Result<Value, Error> {
        let path = format!("{}/{name}{}", self.path(key)?, self.write_query());
        self.client.call(Method::PUT, &path, codec::MEDIA_TYPE, codec::encode(body)).await
    }

    pub async fn patch_subresource(
        &self,
        key: &NamespacedName,
        name: &str,
        patch: &Patch,
    ) -> Result<Value, Error> {
        self.patch_at(&format!("{}/{name}", self.path(key)?), patch).await
    }

    async fn open_watch(
        &self,
        selection: &Selectors,
        start: WatchStart,
    ) -> Result<Watch<K>, Error> {
        let (after, list) = match start {
            WatchStart::List => (String::new(), "true"),
            WatchStart::After(revision) => (revision.to_string(), ""),
        };
        let seconds = watch_timeout_seconds();
        let asked = query(&[
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", &seconds.to_string()),
            ("labelSelector", &selection.labels),
            ("fieldSelector", &selection.fields),
            ("resourceVersion", &after),
            ("sendInitialEvents", list),
            ("resourceVersionMatch", if list.is_empty() { "" } else { "NotOlderThan" }),
        ]);
        let path = self.resource.collection(&self.namespace)? + &asked;
        let answer =
            self.client.request(Method::GET, &path, HeaderMap::new(), Bytes::new()).await?;
        let patience = self.client.config().timeout;
        let answer = timeout(patience, answer.error_for_status())
            .await
            .map_err(|_| Error::unavailable("no answer in time"))??;
        let revision = if let WatchStart::After(revision) = start { revision } else { 0 };
        Ok(Watch::new(answer, revision, seconds))
    }

    async fn replace(&self, object: Value, sub: &str) -> Result<Value, Error> {
        let object = self.with_type_meta(object);
        let path = self.resource.object(self.namespace_of(&object), meta(&object).name())?;
        let path = path + sub + &self.write_query();
        self.read(Method::PUT, &path, codec::MEDIA_TYPE, codec::encode(&object)).await
    }

    async fn patch_at(&self, at: &str, patch: &Patch) -> Result<Value, Error> {
        let (content_type, body, words) = match patch {
            Patch::Json(body) => ("application/json-patch+json", body.clone(), self.write_query()),
            Patch::Merge(body) => {
                ("application/merge-patch+json", body.clone(), self.write_query())
            }
            Patch::Strategic(body) => {
                ("application/strategic-merge-patch+json", body.clone(), self.write_query())
            }
            Patch::Apply { object, manager, force } => {
                let mut words = vec![("fieldManager", &**manager)];
                words.extend(force.then_some(("force", "true")));
                words.extend(self.write_params.iter().map(|(name, value)| (*name, value.as_str())));
                ("application/apply-patch+yaml", self.with_type_meta(object.clone()), query(&words))
            }
        };
        let full = format!("{at}{words}");
        self.read(Method::PATCH, &full, content_type, codec::encode(&body)).await
    }

    async fn read(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Value, Error> {
        self.client.call(method, path, content_type, body).await
    }

    fn path(&self, key: &NamespacedName) -> Result<String, Error> {
        let namespace = if key.namespace.is_empty() { &self.namespace } else { &key.namespace };
        self.resource.object(namespace, &key.name)
    }

    fn namespace_of<'a>(&'a self, object: &'a Value) -> &'a str {
        match meta(object).namespace() {
            "" => &self.namespace,
            namespace => namespace,
        }
    }

    /// Sets apiVersion and kind, which typed objects and list items lack.
    fn with_type_meta(&self, mut object: Value) -> Value {
        if object["apiVersion"].is_null() {
            object["apiVersion"] = self.resource.api_version().into();
        }
        if object["kind"].is_null() {
            object["kind"] = self.resource.kind.clone().into();
        }
        object
    }

    /// The query string of writes.
    fn write_query(&self) -> String {
        let mut words = vec![("fieldManager", self.client.field_manager())];
        words.extend(self.write_params.iter().map(|(name, value)| (*name, value.as_str())));
        query(&words)
    }
}

fn meta(object: &Value) -> &ObjectMeta {
    Object::view(object).metadata()
}
