//! API Priority and Fairness: FlowSchemas say which priority level a request belongs to,
//! and levels how many are handled at once and who waits where.

mod dangling;
mod level;
mod schema;

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use ::schema::Kind;
use api::flowcontrol::{FlowSchema, PriorityLevelConfiguration};
use object::{Object, Status, Text, Value, View};
use server::{Flow, Page, Registry, RequestInfo, Seat, Seating, Selection, User};
use store::{Cursor, Topic};

pub(crate) use self::dangling::run as tell_dangling;
use self::{
    level::{Level, Shape},
    schema::Schema,
};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// Seats by the stored objects.
#[derive(Debug)]
pub(crate) struct Fairness {
    /// Weak: the registry outlives nobody.
    registry: Weak<Registry>,
    /// How many requests are handled at once, of all levels together.
    seats: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    schemas: Arc<Vec<Schema>>,
    levels: HashMap<Text, Arc<Level>>,
    cursors: Vec<Cursor<Value>>,
}

impl Fairness {
    pub(crate) fn new(registry: &Arc<Registry>, seats: usize) -> Self {
        Self { registry: Arc::downgrade(registry), seats, known: Mutex::default() }
    }

    /// The schema and level of a request. Objects are read again when any has changed.
    fn classify(
        &self,
        user: &User,
        info: &RequestInfo,
    ) -> Option<(Arc<Vec<Schema>>, usize, Arc<Level>)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let stale = known.cursors.is_empty()
            || known.cursors.iter_mut().any(|cursor| cursor.try_next().is_some());
        if stale {
            let registry = self.registry.upgrade()?;
            known.read(&registry, self.seats).ok()?;
        }
        let at = known.schemas.iter().position(|schema| schema.matches(user, info))?;
        let level = known.levels.get(&known.schemas[at].level)?.clone();
        Some((known.schemas.clone(), at, level))
    }
}

impl Known {
    fn read(&mut self, registry: &Registry, seats: usize) -> Result<(), Status> {
        let mut cursors = Vec::new();
        let mut all = |plural: &str| -> Result<Vec<Value>, Status> {
            let kind = registry.kind(GROUP, plural)?;
            let list = registry.list(&kind, &Selection::default(), &Page::default())?;
            let cursor = Cursor::open(kind.objects()?, Topic::All, list.revision);
            cursors.push(cursor.map_err(|error| Status::unavailable(error.to_string()))?);
            Ok(list.items.iter().map(|version| version.object.clone()).collect())
        };
        let schemas = all(FlowSchema::NAMES.plural)?;
        let levels = all(PriorityLevelConfiguration::NAMES.plural)?;
        let shapes: Vec<(Text, Shape)> = levels
            .iter()
            .map(|tree| {
                let name = Object::view(tree).metadata().name().into();
                (name, Shape::of(PriorityLevelConfiguration::view(tree)))
            })
            .collect();
        let shares: i64 = shapes.iter().map(|(_, shape)| shape.shares).sum();
        let mut now = HashMap::new();
        for (name, shape) in shapes {
            let limit = shape.limit(seats, shares);
            let level = match self.levels.remove(&name) {
                Some(level) => level,
                None => Arc::new(Level::default()),
            };
            level.set(shape, limit);
            now.insert(name, level);
        }
        let mut schemas: Vec<Schema> =
            schemas.iter().map(|tree| Schema::of(FlowSchema::view(tree))).collect();
        schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        *self = Self { schemas: Arc::new(schemas), levels: now, cursors };
        Ok(())
    }
}

impl Flow for Fairness {
    fn seat<'a>(&'a self, user: &'a User, info: &'a RequestInfo) -> Seating<'a> {
        Box::pin(async move {
            // Without objects nobody is held back: the server is starting.
            let Some((schemas, at, level)) = self.classify(user, info) else {
                return Ok(Seat { of: None, held: None });
            };
            let schema = &schemas[at];
            let mut hash = DefaultHasher::new();
            (&schema.name, schema.distinguisher(user, info)).hash(&mut hash);
            let of = Some((schema.uid.clone(), level.uid()));
            let held = level.take(hash.finish()).await?;
            Ok(Seat { of, held: held.map(|held| Box::new(held) as Box<dyn Send>) })
        })
    }
}
