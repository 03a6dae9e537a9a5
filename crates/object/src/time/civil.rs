//! Conversion between days and dates of the Gregorian calendar.

/// Days from 1 March of year 0 to 1 January 1970.
const EPOCH: i64 = 719_468;
/// Days in 400 years, the period of the calendar.
const ERA: i64 = 146_097;

/// Days since 1970 of a date; `None` if the month does not have that day.
pub(super) fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    // With years that begin in March, a leap day is the last day of its year.
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH;
    (1..=last).contains(&day).then_some(days)
}

/// Year, month and day of a number of days since 1970.
pub(super) fn date(days: i64) -> [i64; 3] {
    let days = days.saturating_add(EPOCH);
    let (era, of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / (ERA - 1)) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, after) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    [era * 400 + year + after, month, day]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_comes_back_in_order() {
        let (mut expected, mut before) = (days(0, 1, 1).expect("a day"), [-1, 12, 31]);
        while before < [9999, 12, 31] {
            let found = date(expected);
            assert!(found > before, "{before:?} before {found:?}");
            assert_eq!(days(found[0], found[1], found[2]), Some(expected));
            (expected, before) = (expected + 1, found);
        }
        assert_eq!((date(0), date(-1)), ([1970, 1, 1], [1969, 12, 31]));
        assert_eq!((days(2024, 2, 29), days(1900, 2, 29)), (Some(19_782), None));
        assert_eq!((days(2024, 4, 31), days(2024, 1, 0)), (None, None));
    }
}
