//! Which addresses and ports Services have: kept up to date from their events,
//! so that a write does not read them all.

use std::collections::HashMap;

use api::core::Service;
use object::{Key, Object, Status, Text, Value, View};
use server::{Page, Registry, Selection};
use store::{Cursor, Event, Topic};

use super::{Place, places};

/// A place is kept for a write that is under way for this many seconds at the most.
const UNDER_WAY: i64 = 60;

#[derive(Debug, Default)]
pub(super) struct Taken {
    owners: HashMap<Place, Text>,
    promised: HashMap<Place, i64>,
    cursor: Option<Cursor<Value>>,
}

impl Taken {
    /// Whether a place is another's, or about to be.
    pub(super) fn is(&self, place: &Place, own: &str) -> bool {
        match self.owners.get(place) {
            Some(owner) => owner != own,
            None => self.promised.contains_key(place),
        }
    }

    /// Keeps places for a write that is under way.
    pub(super) fn promise(&mut self, places: impl Iterator<Item = Place>, now: i64) {
        self.promised.extend(places.map(|place| (place, now + UNDER_WAY)));
    }

    /// Takes in what has happened since the last time.
    pub(super) fn refresh(&mut self, registry: &Registry, now: i64) -> Result<(), Status> {
        self.promised.retain(|_, until| *until > now);
        while let Some(cursor) = &mut self.cursor {
            match cursor.try_next() {
                None => return Ok(()),
                Some(Ok(event)) => self.apply(&event),
                Some(Err(_)) => self.cursor = None, // too far behind
            }
        }
        self.read(registry)
    }

    fn read(&mut self, registry: &Registry) -> Result<(), Status> {
        let kind = registry.kind("", "services")?;
        let list = registry.list(&kind, &Selection::default(), &Page::default())?;
        let cursor = Cursor::open(kind.objects()?, Topic::All, list.revision);
        self.owners.clear();
        for version in &list.items {
            self.own(&version.object);
        }
        self.cursor = Some(cursor.map_err(|error| Status::unavailable(error.to_string()))?);
        Ok(())
    }

    fn apply(&mut self, event: &Event<Value>) {
        if let Some(old) = &event.old {
            let key = key(&old.object);
            for place in places(Service::view(&old.object)) {
                if self.owners.get(&place) == Some(&key) {
                    self.owners.remove(&place);
                }
            }
        }
        if let Some(new) = &event.new {
            self.own(&new.object);
        }
    }

    fn own(&mut self, service: &Value) {
        for place in places(Service::view(service)) {
            self.promised.remove(&place);
            self.owners.insert(place, key(service));
        }
    }
}

fn key(service: &Value) -> Text {
    Key::of(Object::view(service).metadata()).to_string().into()
}
