//! When a cron job runs: five fields, or a word like `@daily`.

use object::Duration;

/// The minutes, hours, days, months and days of the week that are meant, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CronSchedule {
    pub minutes: u64,
    pub hours: u64,
    pub days: u64,
    pub months: u64,
    pub weekdays: u64,
    /// Whether either day field is `*`; if none is, a day that fits one of them is meant.
    pub any_day: bool,
    /// `@every 5m`: this often, in seconds, whatever the fields say.
    pub every: Option<i64>,
}

/// A minute of the calendar: month and day from 1, days of the week from Sunday, 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarMinute {
    pub minute: u32,
    pub hour: u32,
    pub day: u32,
    pub month: u32,
    pub weekday: u32,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl CronSchedule {
    const ALWAYS: Self = Self {
        minutes: u64::MAX,
        hours: u64::MAX,
        days: u64::MAX,
        months: u64::MAX,
        weekdays: u64::MAX,
        any_day: true,
        every: None,
    };

    /// Reads a schedule; what is wrong is said in the words that upstream uses.
    pub fn parse(text: &str) -> Result<Self, String> {
        let zoned = text.strip_prefix("CRON_TZ=").or(text.strip_prefix("TZ="));
        let text = zoned.and_then(|text| text.split_once(' ')).map_or(text, |(_, rest)| rest);
        if let Some(length) = text.strip_prefix("@every ") {
            let length = Duration::parse_nanos(length)
                .map_err(|wrong| format!("failed to parse duration {text}: {wrong}"))?;
            return Ok(Self { every: Some((length / 1_000_000_000).max(1)), ..Self::ALWAYS });
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text if text.starts_with('@') => {
                return Err(format!("unrecognized descriptor: {text}"));
            }
            text => text,
        };
        let fields: Vec<_> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!("expected exactly 5 fields, found {}: {fields:?}", fields.len())
                .replace("\", \"", " ")
                .replace(['"'], ""));
        };
        let any = |field: &str| {
            field.split(',').any(|part| matches!(part, "*" | "?") || part.starts_with("*/"))
        };
        Ok(Self {
            minutes: bits(minutes, 0, 59, &[])?,
            hours: bits(hours, 0, 23, &[])?,
            days: bits(days, 1, 31, &[])?,
            months: bits(months, 1, 12, &MONTHS)?,
            weekdays: bits(weekdays, 0, 6, &WEEKDAYS)?,
            any_day: any(days) || any(weekdays),
            every: None,
        })
    }

    /// Whether a moment is one that is meant, to the minute.
    pub fn matches(&self, at: CalendarMinute) -> bool {
        let CalendarMinute { minute, hour, day, month, weekday } = at;
        let has = |bits: u64, n: u32| bits >> n & 1 == 1;
        let (day, weekday) = (has(self.days, day), has(self.weekdays, weekday));
        has(self.minutes, minute)
            && has(self.hours, hour)
            && has(self.months, month)
            && if self.any_day { day && weekday } else { day || weekday }
    }
}

fn bits(field: &str, low: u32, high: u32, names: &[&str]) -> Result<u64, String> {
    let mut all = 0;
    for part in field.split(',').filter(|part| !part.is_empty()) {
        all |= range(part, low, high, names)?;
    }
    Ok(all)
}

/// `*`, `5`, `1-5`, `*/10`, `2-20/3`.
fn range(part: &str, low: u32, high: u32, names: &[&str]) -> Result<u64, String> {
    let number = |text: &str| -> Result<u32, String> {
        let lower = text.to_lowercase();
        if let Some(at) = names.iter().position(|name| *name == lower) {
            return Ok(u32::try_from(at).unwrap_or_default() + low);
        }
        text.parse().map_err(|_| {
            format!(
                "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
            )
        })
    };
    let pieces: Vec<_> = part.split('/').collect();
    let ends: Vec<_> = pieces[0].split('-').collect();
    let (mut start, mut end, single) = match ends[..] {
        ["*" | "?"] => (low, high, false),
        [one] => (number(one)?, number(one)?, true),
        [first, last] => (number(first)?, number(last)?, false),
        _ => return Err(format!("too many hyphens: {part}")),
    };
    let step = match pieces[..] {
        [_] => 1,
        [_, step] => {
            if single {
                end = high;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {part}")),
    };
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {part}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {part}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {part}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    let mut all = 0;
    while start <= end {
        all |= 1 << start;
        start += step;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_say_when() {
        let schedule = CronSchedule::parse("*/15 2-4 1,31 jan *").expect("well formed");
        assert_eq!(schedule.minutes, 1 | 1 << 15 | 1 << 30 | 1 << 45);
        let moment = CalendarMinute { minute: 15, hour: 3, day: 31, month: 1, weekday: 4 };
        assert!(schedule.matches(moment));
        assert!(!schedule.matches(CalendarMinute { hour: 5, ..moment }));
        let midnight = CalendarMinute { minute: 0, hour: 0, ..moment };
        assert!(CronSchedule::parse("@daily").expect("known").matches(midnight));
    }

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(
            CronSchedule::parse("60 * * * *").unwrap_err(),
            "end of range (60) above maximum (59): 60"
        );
        assert_eq!(
            CronSchedule::parse("a b").unwrap_err(),
            "expected exactly 5 fields, found 2: [a b]"
        );
    }
}
