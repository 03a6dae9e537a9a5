//! Resources that are reserved on the node and not available to pods.

use std::{collections::BTreeMap, fs, str::FromStr};

use object::Quantity;

/// Reserved amounts of `cpu`, `memory`, `ephemeral-storage` and `pid`, in the format of upstream's flags
/// `--kube-reserved` and `--system-reserved`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reserved(BTreeMap<String, Quantity>);

/// A cgroup that is limited to what is reserved for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReservedGroup {
    /// Its name in events: `kube reserved` or `system reserved`.
    pub name: String,
    /// Path of the cgroup, which must exist.
    pub path: String,
    pub reserved: Reserved,
    /// Whether only CPU shares are enforced, not memory and pids.
    pub compressible_only: bool,
}

impl FromStr for Reserved {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut amounts = BTreeMap::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, amount) = pair
                .split_once('=')
                .ok_or_else(|| format!("malformed pair, expect {pair}=value"))?;
            if !["cpu", "memory", "ephemeral-storage", "pid"].contains(&name) {
                return Err(format!("cannot reserve {name:?} resource"));
            }
            let amount: Quantity = amount.parse().map_err(|error| {
                format!("failed to parse quantity {amount:?} for {name:?} resource: {error}")
            })?;
            if amount.sign() < 0 {
                return Err(format!("resource quantity for {name:?} cannot be negative: {amount}"));
            }
            amounts.insert(name.to_owned(), amount);
        }
        Ok(Self(amounts))
    }
}

impl Reserved {
    pub fn get(&self, resource: &str) -> Option<&Quantity> {
        self.0.get(resource)
    }

    /// `whole` minus the reserved amount, but not less than zero.
    pub(crate) fn subtract_from(&self, resource: &str, whole: &Quantity) -> Quantity {
        let Some(reserved) = self.get(resource) else { return whole.clone() };
        let mut left = whole.clone();
        left -= reserved;
        if left.sign() < 0 { Quantity::new(0, whole.format()) } else { left }
    }
}

/// Maximum number of processes and threads on the host.
pub(crate) fn process_capacity() -> Option<i64> {
    let number = |path: &str| -> Option<i64> { fs::read_to_string(path).ok()?.trim().parse().ok() };
    let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
    limits.into_iter().filter_map(number).min()
}

#[cfg(test)]
mod tests {
    use object::quantity::Format;

    use super::*;

    #[test]
    fn flags_are_read_as_upstream_reads_them() {
        let reserved: Reserved = "cpu=200m,memory=500Mi, pid=1000".parse().unwrap();
        let whole = Quantity::new(2, Format::DecimalSi);
        assert_eq!(reserved.subtract_from("cpu", &whole).milli_value(), 1800);
        assert_eq!(reserved.subtract_from("memory", &whole).value(), 0);
        assert_eq!(reserved.subtract_from("ephemeral-storage", &whole), whole);
        assert_eq!("".parse(), Ok(Reserved::default()));
        for (wrong, why) in [
            ("gpu=1", "cannot reserve \"gpu\" resource"),
            ("cpu=-1", "resource quantity for \"cpu\" cannot be negative: -1"),
            ("cpu", "malformed pair, expect cpu=value"),
        ] {
            assert_eq!(wrong.parse::<Reserved>().unwrap_err(), why);
        }
        assert!("cpu=much".parse::<Reserved>().is_err());
    }
}
