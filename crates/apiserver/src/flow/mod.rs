//! API Priority and Fairness: a FlowSchema assigns a request to a priority level, and the level
//! limits how many requests are executed at once and queues the others. Levels may borrow seats
//! that other levels do not need.

mod dangling;
mod dump;
mod metrics;
mod priority_level;
mod schema;
mod seat_demand;

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use ::schema::Kind;
use api::flowcontrol::{FlowSchema, PriorityLevelConfiguration};
use object::{Object, Status, Text, Value, View};
use server::{
    FlowControl, ListOptions, MetricsSource, Registry, RequestInfo, Seat, SeatFuture, Selection,
    UserInfo,
};
use store::{Cursor, Topic};
use tokio::time::Instant;

pub(crate) use self::{dangling::run as tell_dangling, dump::Dump};
use self::{
    metrics::{FlowMetrics, head, line},
    priority_level::{LevelConfig, PriorityLevel, RequestDescriptor, SeatGuard},
    schema::FlowSchemaMatcher,
    seat_demand::{BorrowingTarget, allocate_concurrency, seats},
};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// Interval at which seats are borrowed anew.
const AGAIN: Duration = Duration::from_secs(10);

/// Flow control by the stored FlowSchemas and PriorityLevelConfigurations.
#[derive(Debug)]
pub(crate) struct PriorityAndFairness {
    /// Weak, because flow control must not keep the registry alive.
    registry: Weak<Registry>,
    /// Total number of seats of all levels (the server's concurrency limit).
    seats: usize,
    known: Mutex<FlowConfig>,
}

/// The schemas and levels as last read.
#[derive(Debug, Default)]
struct FlowConfig {
    schemas: Arc<Vec<FlowSchemaMatcher>>,
    levels: BTreeMap<Text, PriorityLevel>,
    cursors: Vec<Cursor<Value>>,
    /// The fraction of their borrowing targets that levels get.
    fair_fraction: f64,
}

/// An occupied seat; dropping it frees the seat.
struct OccupiedSeat {
    _held: SeatGuard,
    tally: Arc<FlowMetrics>,
    since: Instant,
}

impl Drop for OccupiedSeat {
    fn drop(&mut self) {
        self.tally.ends(self.since.elapsed().as_secs_f64());
    }
}

impl PriorityAndFairness {
    pub(crate) fn new(registry: &Arc<Registry>, seats: usize) -> Self {
        Self { registry: Arc::downgrade(registry), seats, known: Mutex::default() }
    }

    /// Redistributes the seats at each interval, for ever.
    pub(crate) async fn run_borrowing(self: Arc<Self>) {
        loop {
            tokio::time::sleep(AGAIN).await;
            let lend = || self.known.lock().unwrap_or_else(PoisonError::into_inner).lend();
            let _ = panics::catch("priority levels", lend);
        }
    }

    /// The schema and level of a request. The stored objects are read again when any has changed.
    fn classify(
        &self,
        user: &UserInfo,
        info: &RequestInfo,
    ) -> Option<(Arc<Vec<FlowSchemaMatcher>>, usize, PriorityLevel)> {
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

impl FlowConfig {
    fn read(&mut self, registry: &Registry, seats: usize) -> Result<(), Status> {
        let mut cursors = Vec::new();
        let mut all = |plural: &str| -> Result<Vec<Value>, Status> {
            let kind = registry.kind(GROUP, plural)?;
            let list = registry.list(&kind, &Selection::default(), &ListOptions::default())?;
            let cursor = Cursor::open(kind.objects()?, Topic::All, list.revision);
            cursors.push(cursor.map_err(|error| Status::unavailable(error.to_string()))?);
            Ok(list.items.iter().map(|version| version.object.clone()).collect())
        };
        let schemas = all(FlowSchema::NAMES.plural)?;
        let levels = all(PriorityLevelConfiguration::NAMES.plural)?;
        let shapes: Vec<(Text, LevelConfig)> = levels
            .iter()
            .map(|tree| {
                let name = Object::view(tree).metadata().name().into();
                (name, LevelConfig::of(PriorityLevelConfiguration::view(tree)))
            })
            .collect();
        let shares: i64 = shapes.iter().map(|(_, shape)| shape.shares).sum();
        let mut now = BTreeMap::new();
        for (name, shape) in shapes {
            let bounds = shape.bounds(seats, shares);
            let level = self.levels.remove(&name).unwrap_or_default();
            level.set(shape, bounds);
            now.insert(name, level);
        }
        let kept: HashMap<&Text, &Arc<FlowMetrics>> =
            self.schemas.iter().map(|schema| (&schema.name, &schema.tally)).collect();
        let mut schemas: Vec<FlowSchemaMatcher> = schemas
            .iter()
            .map(|tree| FlowSchemaMatcher::of(FlowSchema::view(tree), &kept))
            .collect();
        schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        *self = Self {
            schemas: Arc::new(schemas),
            levels: now,
            cursors,
            fair_fraction: self.fair_fraction,
        };
        Ok(())
    }

    /// Redistributes all seats by the demand of each level since the last time.
    fn lend(&mut self) {
        let wishes: Vec<(&PriorityLevel, bool, BorrowingTarget)> = self
            .levels
            .values()
            .map(|level| {
                let (exempt, wish) = level.borrowing_target();
                (level, exempt, wish)
            })
            .collect();
        let sights: Vec<_> = wishes.iter().map(|(level, ..)| level.sight()).collect();
        let all: usize = sights.iter().map(|sight| sight.bounds.nominal).sum();
        // Exempt levels take what they need first.
        let taken: f64 = wishes.iter().filter(|own| own.1).map(|own| own.2.lower).sum();
        let left = all.saturating_sub(seats(taken));
        let limited = || wishes.iter().zip(&sights).filter(|((_, exempt, _), _)| !exempt);
        let least: usize = limited().map(|(_, sight)| sight.bounds.lower).sum();
        let wanted: f64 = limited().map(|((.., wish), _)| wish.lower).sum();
        let items: Vec<BorrowingTarget> = limited().map(|((.., wish), _)| *wish).collect();
        let divided = allocate_concurrency(all, &items);
        self.fair_fraction = 0.0;
        for (at, ((level, _, wish), sight)) in limited().enumerate() {
            let lower = seat_demand::float(sight.bounds.lower);
            let limit = if left <= least {
                lower
            } else if seat_demand::float(left) <= wanted {
                let part = (seat_demand::float(left) - seat_demand::float(least))
                    / (wanted - seat_demand::float(least)).max(1.0);
                lower + (wish.lower - lower) * part
            } else if let Some((given, part)) = &divided {
                self.fair_fraction = *part;
                given[at]
            } else {
                seat_demand::float(sight.limit)
            };
            level.set_limit(seats(limit));
        }
        for (level, _, wish) in wishes.iter().filter(|(_, exempt, _)| *exempt) {
            level.set_limit(seats(wish.lower));
        }
    }
}

impl FlowControl for PriorityAndFairness {
    fn acquire_seat<'a>(&'a self, user: &'a UserInfo, info: &'a RequestInfo) -> SeatFuture<'a> {
        Box::pin(async move {
            // Without stored objects nothing is limited: the server is starting.
            let Some((schemas, at, level)) = self.classify(user, info) else {
                return Ok(Seat { classification: None, guard: None });
            };
            let schema = &schemas[at];
            let flow = schema.distinguisher(user, info);
            let mut hash = DefaultHasher::new();
            (&schema.name, &flow).hash(&mut hash);
            let of = Some((schema.uid.clone(), level.uid()));
            let arrived = || self.registry.upgrade().map_or(0, |own| own.clock().now_micros());
            let who = || RequestDescriptor {
                schema: schema.name.clone(),
                flow: flow.into(),
                arrived: arrived(),
            };
            let held = level.acquire(hash.finish(), who, &schema.tally).await?;
            let sits =
                OccupiedSeat { _held: held, tally: schema.tally.clone(), since: Instant::now() };
            Ok(Seat { classification: of, guard: Some(Box::new(sits)) })
        })
    }
}

/// A value of a level for the metrics.
type Of = fn(&priority_level::LevelSnapshot) -> f64;

impl MetricsSource for PriorityAndFairness {
    fn report(&self, out: &mut String) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let sights: Vec<_> = known.levels.iter().map(|(name, own)| (name, own.sight())).collect();
        let figures: [(&str, &str, Of); 9] = [
            ("nominal_limit_seats", "Seats by the shares.", |own| {
                seat_demand::float(own.bounds.nominal)
            }),
            ("lower_limit_seats", "Seats that are not lent.", |own| {
                seat_demand::float(own.bounds.lower)
            }),
            ("upper_limit_seats", "Seats with all that may be borrowed.", |own| {
                seat_demand::float(own.bounds.upper)
            }),
            ("current_limit_seats", "Seats at the moment.", |own| seat_demand::float(own.limit)),
            ("demand_seats_high_watermark", "The most seats that were wanted.", |own| {
                own.seen.most
            }),
            ("demand_seats_average", "Seats that were wanted.", |own| own.seen.average),
            ("demand_seats_stdev", "How that varied.", |own| own.seen.deviation),
            ("demand_seats_smoothed", "What is expected.", |own| own.seen.smoothed),
            ("target_seats", "Seats that shall be given.", |own| {
                own.seen.smoothed.max(seat_demand::float(own.bounds.lower))
            }),
        ];
        for (name, help, of) in figures {
            head(name, "gauge", help, out);
            for (level, sight) in &sights {
                line(name, level, of(sight), out);
            }
        }
        head("seat_fair_frac", "gauge", "What part of what they could use levels have.", out);
        let _ = writeln!(out, "apiserver_flowcontrol_seat_fair_frac {}", known.fair_fraction);
        let tallies: Vec<_> =
            known.schemas.iter().map(|own| (&*own.name, &*own.level, &*own.tally)).collect();
        metrics::report(&tallies, out);
    }
}
