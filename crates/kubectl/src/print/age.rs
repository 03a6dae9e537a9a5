//! Ages and durations in short form: `5m30s`, `3d`, `2y11d`.

use object::Time;

/// The age of a timestamp; `<unknown>` if it is invalid.
pub(crate) fn age_since(moment: &str, now: i64) -> String {
    match Time::parse_seconds(moment) {
        Some(then) => human_duration(now - then),
        None => "<unknown>".to_owned(),
    }
}

/// Formats a duration in seconds, with less precision the longer it is.
pub(crate) fn human_duration(seconds: i64) -> String {
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    let two = |large: i64, unit: char, small: i64, minor: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{minor}"),
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        ..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 60 * 3 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 24 * 8 => two(days, 'd', hours % 24, 'h'),
        _ if hours < 24 * 365 * 2 => format!("{days}d"),
        _ if hours < 24 * 365 * 8 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[test]
fn durations_are_upstreams() {
    for (seconds, text) in [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (130, "2m10s"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (10860, "3h1m"),
        (28800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (180_000, "2d2h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (-5, "<invalid>"),
    ] {
        assert_eq!(human_duration(seconds), text);
    }
}
