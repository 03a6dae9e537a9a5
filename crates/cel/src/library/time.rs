//! Accessors of timestamps and durations.

use jiff::tz::TimeZone;

use super::Outcome;
use crate::{
    error::Error,
    function::Function,
    value::{Civil, NANOS, Timestamp, Value},
};

macro_rules! part {
    ($name:literal, $plain:literal, $zone:literal, $part:expr) => {
        Function {
            name: $name,
            overloads: &[($plain, "timestamp.() -> int"), ($zone, "timestamp.(string) -> int")],
            body: |_, args| moment_part(args, $part),
        }
    };
    ($name:literal, $plain:literal, $zone:literal, $part:expr, $duration:literal, $unit:expr) => {
        Function {
            name: $name,
            overloads: &[
                ($plain, "timestamp.() -> int"),
                ($zone, "timestamp.(string) -> int"),
                ($duration, "duration.() -> int"),
            ],
            body: |_, args| match args {
                [Value::Duration(nanos)] => Ok(Value::Int(*nanos / $unit)),
                args => moment_part(args, $part),
            },
        }
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    part!("getFullYear", "timestamp_to_year", "timestamp_to_year_with_tz", |at, _| at.year),
    part!("getMonth", "timestamp_to_month", "timestamp_to_month_with_tz", |at, _| at.month - 1),
    part!(
        "getDayOfYear",
        "timestamp_to_day_of_year",
        "timestamp_to_day_of_year_with_tz",
        |at, _| at.day_of_year
    ),
    part!(
        "getDayOfMonth",
        "timestamp_to_day_of_month",
        "timestamp_to_day_of_month_with_tz",
        |at, _| at.day - 1
    ),
    part!(
        "getDate",
        "timestamp_to_day_of_month_1_based",
        "timestamp_to_day_of_month_1_based_with_tz",
        |at, _| at.day
    ),
    part!(
        "getDayOfWeek",
        "timestamp_to_day_of_week",
        "timestamp_to_day_of_week_with_tz",
        |at, _| at.day_of_week
    ),
    part!(
        "getHours",
        "timestamp_to_hours",
        "timestamp_to_hours_with_tz",
        |at, _| at.hour,
        "duration_to_hours",
        3600 * NANOS
    ),
    part!(
        "getMinutes",
        "timestamp_to_minutes",
        "timestamp_to_minutes_with_tz",
        |at, _| at.minute,
        "duration_to_minutes",
        60 * NANOS
    ),
    part!(
        "getSeconds",
        "timestamp_to_seconds",
        "timestamp_to_seconds_tz",
        |at, _| at.second,
        "duration_to_seconds",
        NANOS
    ),
    part!(
        "getMilliseconds",
        "timestamp_to_milliseconds",
        "timestamp_to_milliseconds_with_tz",
        |_, moment| i64::from(moment.nanos / 1_000_000),
        "duration_to_milliseconds",
        1_000_000
    ),
];

/// A component of a timestamp, in the time zone of the second argument if given.
fn moment_part<'a>(args: &[Value<'a>], part: fn(Civil, Timestamp) -> i64) -> Outcome<'a> {
    let (moment, offset) = match args {
        [Value::Timestamp(moment)] => (*moment, 0),
        [Value::Timestamp(moment), Value::Text(zone)] => (*moment, offset(*moment, zone)?),
        _ => return Err(Error::no_overload()),
    };
    Ok(Value::Int(part(moment.civil(offset), moment)))
}

/// The offset of a time zone from UTC in seconds.
fn offset(moment: Timestamp, zone: &str) -> Result<i64, Error> {
    let unknown = || Error::new(format!("unknown time zone {zone}"));
    if let Some((hours, minutes)) = zone.split_once(':') {
        let number = |text: &str| {
            let invalid = || {
                let quoted = object::quote::quote(text);
                Error::new(format!("strconv.Atoi: parsing {quoted}: invalid syntax"))
            };
            text.parse::<i64>().map_err(|_| invalid())
        };
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        let sign = if zone.starts_with('-') { -1 } else { 1 };
        return Ok(hours * 3600 + sign * minutes * 60);
    }
    if zone.is_empty() || zone == "UTC" {
        return Ok(0);
    }
    let zone = TimeZone::get(zone).map_err(|_| unknown())?;
    let at = jiff::Timestamp::from_second(moment.seconds).map_err(|_| unknown())?;
    Ok(zone.to_offset(at).seconds().into())
}
