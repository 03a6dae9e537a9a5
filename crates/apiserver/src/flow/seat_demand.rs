//! Seat demand of priority levels, and the division of seats between them by borrowing.

/// How much of the last smoothed demand stays in the next one.
const SMOOTHING: f64 = 0.977;
/// Minimum target, so that a level without demand still gets a share of spare seats.
const LEAST: f64 = 0.001;

/// Statistics of the seats that a level needs, updated at each change.
#[derive(Clone, Debug, Default)]
pub(super) struct SeatDemand {
    /// Beginning and end of the current period, in seconds.
    since: f64,
    until: f64,
    wanted: f64,
    most: f64,
    sum: f64,
    squares: f64,
}

/// The demand of a past period, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SeatDemandStats {
    pub(super) most: f64,
    pub(super) average: f64,
    pub(super) deviation: f64,
    pub(super) smoothed: f64,
}

/// The seats of a level: the nominal number, and the range within which borrowing may change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConcurrencyBounds {
    pub(super) nominal: usize,
    pub(super) lower: usize,
    pub(super) upper: usize,
}

/// How many seats a level could use, and within which range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BorrowingTarget {
    pub(super) target: f64,
    pub(super) lower: f64,
    pub(super) upper: f64,
}

impl SeatDemand {
    /// Records that the level needs this many seats from now on.
    pub(super) fn set(&mut self, now: f64, wanted: usize) {
        self.pass(now);
        self.wanted = float(wanted);
        self.most = self.most.max(self.wanted);
    }

    /// The statistics since the last call, smoothed with the earlier ones; starts a new period.
    pub(super) fn take(&mut self, now: f64, before: SeatDemandStats) -> SeatDemandStats {
        self.pass(now);
        let time = self.until - self.since;
        let most = self.most.round();
        let mut seen = SeatDemandStats { most, ..before };
        if time > 0.0 {
            seen.average = self.sum / time;
            seen.deviation = (self.squares / time - seen.average.powi(2)).max(0.0).sqrt();
            let now = seen.average + seen.deviation;
            seen.smoothed = now.max(SMOOTHING * before.smoothed + (1.0 - SMOOTHING) * now);
        }
        let wanted = self.wanted;
        *self = Self { since: now, until: now, wanted, most: wanted, ..Self::default() };
        seen
    }

    fn pass(&mut self, now: f64) {
        let time = (now - self.until).max(0.0);
        self.sum += self.wanted * time;
        self.squares += self.wanted.powi(2) * time;
        self.until = self.until.max(now);
    }
}

/// Divides the seats so that each level gets the same fraction of its target, within its bounds;
/// returns the seats and the fraction. `None` if the bounds allow no such division.
pub(super) fn allocate_concurrency(
    seats: usize,
    wishes: &[BorrowingTarget],
) -> Option<(Vec<f64>, f64)> {
    let seats = float(seats);
    let given = |wish: &BorrowingTarget, part: f64| {
        (wish.target.max(LEAST) * part).clamp(wish.lower, wish.upper)
    };
    let sum = |part: f64| wishes.iter().map(|wish| given(wish, part)).sum::<f64>();
    let sound = wishes.iter().all(|wish| wish.lower <= wish.upper && wish.lower <= wish.target);
    let most: f64 = wishes.iter().map(|wish| wish.upper).sum();
    if !sound || sum(0.0) > seats + 1e-7 || most < seats - 1e-7 {
        return None;
    }
    let highest = |wish: &BorrowingTarget| wish.upper / wish.target.max(LEAST);
    let (mut low, mut high) = (0.0, wishes.iter().map(highest).fold(0.0, f64::max));
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if sum(middle) < seats { low = middle } else { high = middle }
    }
    Some((wishes.iter().map(|wish| given(wish, high)).collect(), high))
}

pub(super) fn float(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

/// Rounds to a number of seats.
pub(super) fn seats(n: f64) -> usize {
    let mut whole = n.round().clamp(0.0, f64::from(u32::MAX));
    let mut seats = 0;
    // Exact for all numbers in this range.
    for bit in (0..32).rev() {
        let weight = f64::from(1_u32 << bit);
        if whole >= weight {
            whole -= weight;
            seats += 1_usize << bit;
        }
    }
    seats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_is_an_average_over_time() {
        let mut demand = SeatDemand::default();
        demand.set(0.0, 10);
        demand.set(5.0, 0);
        let seen = demand.take(10.0, SeatDemandStats::default());
        assert_eq!((seen.most, seen.average, seen.deviation), (10.0, 5.0, 5.0));
        assert!((seen.smoothed - 10.0).abs() < 1e-9);
        let later = demand.take(20.0, seen);
        assert_eq!((later.most, later.average), (0.0, 0.0));
        assert!((later.smoothed - 9.77).abs() < 1e-9, "it is forgotten slowly");
    }

    #[test]
    fn what_one_does_not_need_another_gets() {
        let idle = BorrowingTarget { target: 10.0, lower: 10.0, upper: 100.0 };
        let busy = BorrowingTarget { target: 90.0, lower: 20.0, upper: 100.0 };
        let (given, _) = allocate_concurrency(100, &[idle, busy]).unwrap();
        assert!((given[0] - 10.0).abs() < 1e-6 && (given[1] - 90.0).abs() < 1e-6, "{given:?}");
        let (given, part) = allocate_concurrency(200, &[idle, busy]).unwrap();
        assert_eq!((seats(given[0]), seats(given[1])), (100, 100), "all there is: {part}");
        assert_eq!(allocate_concurrency(300, &[idle, busy]), None);
        assert_eq!(allocate_concurrency(20, &[idle, busy]), None);
    }

    #[test]
    fn bounds_hold() {
        let bounded = BorrowingTarget { target: 50.0, lower: 5.0, upper: 30.0 };
        let free = BorrowingTarget { target: 50.0, lower: 5.0, upper: 1000.0 };
        let (given, _) = allocate_concurrency(100, &[bounded, free]).unwrap();
        assert_eq!((seats(given[0]), seats(given[1])), (30, 70));
    }
}
