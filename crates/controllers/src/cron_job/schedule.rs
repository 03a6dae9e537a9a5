//! Computes the times of a CronJob's schedule, in its time zone.

use api::batch::{CalendarMinute, CronJob, CronSchedule};
use jiff::{Timestamp, ToSpan, Zoned, tz::TimeZone};
use object::Time;

/// A schedule with no time in this many years never runs.
const YEARS: i64 = 5;
/// Number of missed runs above which a warning event is recorded.
const MAX_MISSED: i64 = 100;

/// A cron schedule in a time zone.
#[derive(Clone, Debug)]
pub(super) struct ZonedSchedule {
    schedule: CronSchedule,
    zone: TimeZone,
}

/// The latest run that is due and was not started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MissedRun {
    pub(super) at: i64,
    /// Whether more than `MAX_MISSED` runs were missed.
    pub(super) too_many_missed: bool,
}

/// Why a schedule is invalid: reason and message of the event.
pub(super) type ScheduleError = (&'static str, String);

impl ZonedSchedule {
    /// Parses the schedule and the time zone of a CronJob.
    pub(super) fn of(cron: &CronJob) -> Result<Self, ScheduleError> {
        let (text, zone) = (cron.spec().schedule(), cron.spec().time_zone());
        if let Some(name) = zone {
            let wrong = |error| ("UnknownTimeZone", format!("invalid timeZone: {name:?}: {error}"));
            find(name).map_err(wrong)?;
        }
        let wrong =
            |error| ("UnparseableSchedule", format!("unparseable schedule: {text:?} : {error}"));
        let schedule = CronSchedule::parse(text).map_err(wrong)?;
        let inline = text.strip_prefix("CRON_TZ=").or(text.strip_prefix("TZ="));
        let inline = inline.and_then(|rest| rest.split_whitespace().next());
        let zone = inline.or(zone).map_or(Ok(TimeZone::UTC), find).map_err(wrong)?;
        Ok(Self { schedule, zone })
    }

    /// The first scheduled time after `after`.
    pub(super) fn next(&self, after: i64) -> Option<i64> {
        if let Some(period) = self.schedule.every {
            return after.checked_add(period);
        }
        let start =
            Timestamp::from_second(after.div_euclid(60).checked_add(1)?.checked_mul(60)?).ok()?;
        let mut at = start.to_zoned(self.zone.clone());
        let end = at.checked_add(YEARS.years()).ok()?;
        while at < end {
            let moment = moment(&at);
            if self.schedule.matches(moment) {
                return Some(at.timestamp().as_second());
            }
            at = self.skip(&at, moment)?;
        }
        None
    }

    /// The earliest time after `at` that can match the schedule.
    fn skip(&self, at: &Zoned, moment: CalendarMinute) -> Option<Zoned> {
        let has = |bits: u64, n: u32| bits >> n & 1 == 1;
        let any_time = |moment: CalendarMinute| {
            let times = CronSchedule { minutes: u64::MAX, hours: u64::MAX, ..self.schedule };
            times.matches(moment)
        };
        if !has(self.schedule.months, moment.month) {
            return at.first_of_month().ok()?.checked_add(1.month()).ok()?.start_of_day().ok();
        }
        if !any_time(moment) {
            return at.tomorrow().ok()?.start_of_day().ok();
        }
        let minutes = if has(self.schedule.hours, moment.hour) { 1 } else { 60 - moment.minute };
        at.checked_add(i64::from(minutes).minutes()).ok()
    }

    /// The latest run not after `now` that was not started. With `startingDeadlineSeconds`, older
    /// runs are ignored.
    pub(super) fn due(&self, cron: &CronJob, now: i64) -> Result<Option<MissedRun>, ScheduleError> {
        let deadline = cron.spec().starting_deadline_seconds();
        let from = deadline
            .map_or(i64::MIN, |seconds| now.saturating_sub(seconds))
            .max(earliest_time(cron));
        Ok(self
            .last(from, now)?
            .map(|(at, missed)| MissedRun { at, too_many_missed: missed > MAX_MISSED }))
    }

    /// The time of the next reconcile: the next run.
    pub(super) fn next_wakeup(&self, cron: &CronJob, now: i64) -> Option<i64> {
        let from = earliest_time(cron);
        let last = match self.last(from, now) {
            Ok(Some((at, _))) => at,
            Ok(None) if self.next(from).is_some_and(|next| next > now) => from,
            _ => now,
        };
        self.next(last)
    }

    /// The last scheduled time in (`from`, `now`], and approximately how many there were.
    fn last(&self, from: i64, now: i64) -> Result<Option<(i64, i64)>, ScheduleError> {
        let Some(first) = self.next(from).filter(|first| *first <= now) else { return Ok(None) };
        let Some(second) = self.next(first).filter(|second| *second <= now) else {
            return Ok(Some((first, 0)));
        };
        let period = second - first;
        if period < 1 {
            let why = "time difference between two schedules is less than 1 second";
            return Err(("InvalidSchedule", why.to_owned()));
        }
        let missed = (now - first) / period + 1;
        let (mut last, mut at) = (None, first + (missed - 2) * period);
        while let Some(next) = self.next(at).filter(|next| *next <= now) {
            (last, at) = (Some(next), next);
        }
        Ok(last.map(|last| (last, missed)))
    }

    /// Formats a time in the CronJob's time zone (RFC 3339).
    pub(super) fn format_time(cron: &CronJob, at: i64) -> String {
        let zone = cron.spec().time_zone().and_then(|name| find(name).ok());
        let Some(zone) = zone else { return Time::format(at).into() };
        let moment = Timestamp::from_second(at).unwrap_or(Timestamp::MAX).to_zoned(zone);
        let text = moment.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        text.strip_suffix("+00:00").map_or(text.clone(), |text| format!("{text}Z"))
    }
}

/// Formats a time like Go's RFC1123Z, in UTC.
pub(super) fn format_rfc1123(at: i64) -> String {
    let moment = Timestamp::from_second(at).unwrap_or(Timestamp::MAX);
    moment.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

/// The time up to which runs are done: the last scheduled run, or else the creation.
fn earliest_time(cron: &CronJob) -> i64 {
    let last = cron.status().last_schedule_time().and_then(Time::parse_seconds);
    last.or_else(|| Time::parse_seconds(cron.metadata().creation_timestamp())).unwrap_or_default()
}

fn find(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| format!("unknown time zone {name}"))
}

fn moment(at: &Zoned) -> CalendarMinute {
    let number = |n: i8| u32::try_from(n).unwrap_or_default();
    CalendarMinute {
        minute: number(at.minute()),
        hour: number(at.hour()),
        day: number(at.day()),
        month: number(at.month()),
        weekday: number(at.weekday().to_sunday_zero_offset()),
    }
}

#[cfg(test)]
mod tests {
    use api::batch::{CronJobSpec, CronJobStatus};
    use object::ObjectMeta;

    use super::*;

    fn cron(schedule: &str, created: &str) -> CronJob {
        let mut cron = CronJob::new();
        cron.set_metadata(ObjectMeta::new().with_creation_timestamp(created));
        cron.set_spec(CronJobSpec::new().with_schedule(schedule));
        cron
    }

    fn next(schedule: &str, zone: &str, after: &str) -> String {
        let mut cron = cron(schedule, after);
        if !zone.is_empty() {
            cron.spec_mut().set_time_zone(zone);
        }
        let clock = ZonedSchedule::of(&cron).unwrap();
        let next = clock.next(Time::parse_seconds(after).unwrap());
        next.map_or_else(|| "never".into(), |at| Time::format(at).into())
    }

    #[test]
    fn the_next_moment() {
        for (schedule, zone, after, expected) in [
            ("* * * * *", "", "2026-01-31T23:59:30Z", "2026-02-01T00:00:00Z"),
            ("* * * * *", "", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"),
            ("30 3 * * 1", "", "2026-11-16T03:30:00Z", "2026-11-23T03:30:00Z"),
            ("0 0 31 * *", "", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"),
            ("0 0 30 2 *", "", "2026-01-31T00:00:00Z", "never"),
            ("0 12 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z", "2026-07-01T10:00:00Z"),
            ("0 12 * * *", "Europe/Berlin", "2026-12-01T00:00:00Z", "2026-12-01T11:00:00Z"),
            // When clocks go back, both hours count; when they go forward, no run is lost.
            ("30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
            ("30 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"),
            ("TZ=Asia/Tokyo 0 0 * * *", "", "2026-01-01T00:00:00Z", "2026-01-01T15:00:00Z"),
            ("@every 90s", "", "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"),
        ] {
            assert_eq!(next(schedule, zone, after), expected, "{schedule} {zone} after {after}");
        }
    }

    #[test]
    fn what_was_missed_is_due_once() {
        let mut cron = cron("*/10 * * * *", "2026-01-01T00:00:00Z");
        let due = |cron: &CronJob, now: &str| {
            let clock = ZonedSchedule::of(cron).unwrap();
            let now = Time::parse_seconds(now).unwrap();
            let due = clock.due(cron, now).unwrap();
            let shown = |at| Time::format(at).to_string();
            let next = clock.next_wakeup(cron, now).map(shown).unwrap();
            (due.map(|due| (shown(due.at), due.too_many_missed)), next)
        };
        let at = |text: &str| format!("2026-01-01T{text}:00Z");
        assert_eq!(due(&cron, &at("00:05")), (None, at("00:10")));
        assert_eq!(due(&cron, &at("00:12")), (Some((at("00:10"), false)), at("00:20")));
        assert_eq!(due(&cron, &at("01:05")), (Some((at("01:00"), false)), at("01:10")));
        assert_eq!(due(&cron, &at("20:05")), (Some((at("20:00"), true)), at("20:10")));
        cron.spec_mut().set_starting_deadline_seconds(60);
        assert_eq!(due(&cron, &at("20:05")), (None, at("20:10")));
        let done = CronJobStatus::new().with_last_schedule_time(at("01:00"));
        cron.set_status(done);
        assert_eq!(due(&cron, &at("01:00")), (None, at("01:10")));
    }

    #[test]
    fn says_what_is_wrong() {
        let mut bad = cron("* * *", "2026-01-01T00:00:00Z");
        assert_eq!(ZonedSchedule::of(&bad).unwrap_err().0, "UnparseableSchedule");
        bad.spec_mut().set_time_zone("Nowhere/At_all");
        assert_eq!(ZonedSchedule::of(&bad).unwrap_err().0, "UnknownTimeZone");
        let mut zoned = cron("* * * * *", "2026-01-01T00:00:00Z");
        assert_eq!(ZonedSchedule::format_time(&zoned, 0), "1970-01-01T00:00:00Z");
        zoned.spec_mut().set_time_zone("Asia/Tokyo");
        assert_eq!(ZonedSchedule::format_time(&zoned, 0), "1970-01-01T09:00:00+09:00");
        assert_eq!(format_rfc1123(0), "Thu, 01 Jan 1970 00:00:00 +0000");
    }
}
