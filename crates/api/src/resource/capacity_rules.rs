//! The rules for how much of a device may be asked for.

use std::collections::BTreeSet;

use object::Quantity;
use schema::{ErrorList, FieldPath};

use super::{CapacityRequestPolicy, CapacityRequestPolicyRange};

const MAX_VALUES: usize = 10;

/// Checks a policy for a capacity of `total`.
pub(super) fn check_policy(
    total: &Quantity,
    policy: &CapacityRequestPolicy,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let values: Vec<Quantity> = policy.valid_values().iter().collect();
    match (values.is_empty(), policy.valid_range(), policy.default()) {
        (false, Some(_), _) => errs.forbidden(
            at,
            "exactly one policy can be specified, cannot specify \"validValues\" and \
             \"validRange\" at the same time",
        ),
        (false, None, None) => {
            errs.required(&at.field("default"), "required when validValues is defined");
        }
        (true, Some(_), None) => {
            errs.required(&at.field("default"), "required when validRange is defined");
        }
        (false, None, Some(default)) => {
            check_values(total, &default, &values, &at.field("validValues"), errs);
        }
        (true, Some(range), Some(default)) => {
            check_range(total, &default, range, &at.field("validRange"), errs);
        }
        (true, None, _) => {}
    }
}

fn check_values(
    total: &Quantity,
    default: &Quantity,
    values: &[Quantity],
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    for (i, pair) in values.windows(2).enumerate().filter(|(_, pair)| pair[0] > pair[1]) {
        let why = "values must be sorted in ascending order";
        errs.invalid(&at.index(i + 1), pair[1].to_string(), why);
    }
    let mut found = false;
    if values.len() > MAX_VALUES {
        errs.too_many_with_count(at, values.len(), MAX_VALUES);
    } else {
        let mut seen = BTreeSet::new();
        for (i, value) in values.iter().enumerate() {
            if value > total {
                let why = format!("option is larger than capacity value: {total}");
                errs.invalid(&at.index(i), value.to_string(), why);
            }
            found |= value == default;
        }
        for (i, value) in values.iter().enumerate() {
            let key = plain(value);
            if !seen.insert(key.clone()) {
                errs.duplicate(&at.index(i), key);
            }
        }
    }
    if !found {
        let why = "default value is not valid according to the requestPolicy";
        errs.invalid(at, default.to_string(), why);
    }
}

fn check_range(
    total: &Quantity,
    default: &Quantity,
    range: &CapacityRequestPolicyRange,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let Some(min) = range.min() else {
        return errs.required(&at.field("min"), "required when validRange is defined");
    };
    let told = |name: &str, bad: &Quantity, why: String, errs: &mut ErrorList| {
        errs.invalid(&at.field(name), bad.to_string(), why);
    };
    if min > *total {
        told("min", &min, format!("min is larger than capacity value: {total}"), errs);
    }
    if *default < min {
        told("default", default, format!("default is less than min: {min}"), errs);
    }
    if let Some(max) = range.max() {
        if min > max {
            told("max", &min, format!("min is larger than max: {max}"), errs);
        }
        if max > *total {
            told("max", &max, format!("max is larger than capacity value: {total}"), errs);
        }
        if *default > max {
            told("default", default, format!("default is more than max: {max}"), errs);
        }
    }
    check_step(total, default, range, &at.field("step"), errs);
}

fn check_step(
    total: &Quantity,
    default: &Quantity,
    range: &CapacityRequestPolicyRange,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let Some(step) = range.step() else {
        return;
    };
    let min = range.min().unwrap_or_default();
    if step <= Quantity::default() {
        return errs.invalid(at, step.to_string(), "must be greater than zero");
    }
    let first = min.clone() + &step;
    if first > *total {
        let why = format!("one step {first} is larger than capacity value: {total}");
        errs.invalid(at, step.to_string(), why);
    }
    let (milli, from) = (step.milli_value().max(1), min.milli_value());
    for value in [Some(default.clone()), range.max()].into_iter().flatten() {
        if value.milli_value().saturating_sub(from) % milli != 0 {
            let why = format!("value is not a multiple of a given step ({step}) from ({min})");
            errs.invalid(at, value.to_string(), why);
        }
    }
}

/// An amount without a unit.
fn plain(amount: &Quantity) -> String {
    let milli = amount.milli_value();
    match milli % 1000 {
        0 => (milli / 1000).to_string(),
        rest => {
            let fraction = format!("{:03}", rest.abs());
            format!("{}.{}", milli / 1000, fraction.trim_end_matches('0'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_start_at_the_least() {
        let of = |text: &str| text.parse::<Quantity>().expect("an amount");
        let told = |default: &str| {
            let range = CapacityRequestPolicyRange::new().with_min(of("1")).with_step(of("2"));
            let policy =
                CapacityRequestPolicy::new().with_default(of(default)).with_valid_range(range);
            let mut errs = ErrorList::default();
            check_policy(&of("10"), &policy, &FieldPath::Root.field("p"), &mut errs);
            errs.0.len()
        };
        assert_eq!((told("3"), told("4"), told("0")), (0, 1, 2));
    }
}
