//! Flags about the labels of metrics.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use object::yaml::from_yaml;
use server::AllowedLabels;

use crate::reload;

#[derive(Args, Clone, Debug)]
pub struct MetricFlags {
    /// The values that a label of a metric may have: METRIC,LABEL=VALUE,VALUE. All others are
    /// told as "unexpected". Several are quoted each, with commas between.
    #[arg(long, value_name = "METRIC,LABEL=VALUES")]
    pub allow_metric_labels: Vec<String>,
    /// A file that says the same: allowListMapping, with METRIC,LABEL: VALUES. What the flag
    /// says counts more.
    #[arg(long, value_name = "FILE")]
    pub allow_metric_labels_manifest: Option<PathBuf>,
}

impl MetricFlags {
    /// The allowed label values of the flag and of the manifest.
    pub(crate) fn allowed(&self) -> Result<AllowedLabels> {
        let mut all = BTreeMap::new();
        if let Some(path) = &self.allow_metric_labels_manifest {
            let file = from_yaml(&reload::text(path)?);
            let file = file.context("failed to parse allow list manifest")?;
            for (key, values) in file.get("allowListMapping").entries() {
                add(&mut all, key, values.as_str().unwrap_or_default())?;
            }
        }
        for said in &self.allow_metric_labels {
            for pair in pairs(said) {
                let Some((key, values)) = pair.split_once('=') else {
                    bail!("--allow-metric-labels: {pair} must be formatted as key=value");
                };
                add(&mut all, key.trim(), values)?;
            }
        }
        Ok(AllowedLabels(all))
    }
}

/// Allowed values by metric and label.
type All = BTreeMap<(String, String), BTreeSet<String>>;

fn add(all: &mut All, key: &str, values: &str) -> Result<()> {
    let named = |text: &str| {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        text.starts_with(|c: char| letter(c) && !c.is_ascii_digit()) && text.chars().all(letter)
    };
    let (metric, label) = key.split_once(',').unwrap_or_default();
    let (metric, label) = (metric.trim(), label.trim());
    ensure!(
        named(metric) && named(label),
        "invalid key of --allow-metric-labels: {key:?}: say METRIC,LABEL"
    );
    let values = values.trim_matches('\'').split(',').map(|value| value.trim().to_owned());
    all.insert((metric.to_owned(), label.to_owned()), values.collect());
    Ok(())
}

/// Splits the flag's value. A single pair may contain commas; several pairs are quoted each.
fn pairs(said: &str) -> Vec<String> {
    if said.matches('=').count() == 1 {
        return vec![said.trim_matches('"').to_owned()];
    }
    let (mut all, mut quoted) = (vec![String::new()], false);
    for c in said.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(String::new()),
            c => all.last_mut().expect("it begins with one").push(c),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_their_values() {
        let allowed = |said: &[&str]| {
            let said = said.iter().map(ToString::to_string).collect();
            MetricFlags { allow_metric_labels: said, allow_metric_labels_manifest: None }.allowed()
        };
        let of = |allowed: &AllowedLabels, metric: &str, label: &str| {
            let values = &allowed.0[&(metric.to_owned(), label.to_owned())];
            values.iter().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(&allowed(&["m,l=a,b"]).unwrap(), "m", "l"), "a b");
        let two = allowed(&[r#""m,l=a,b","n,k=c""#, "o,p=d"]).unwrap();
        assert_eq!(of(&two, "m", "l"), "a b");
        assert_eq!(of(&two, "n", "k"), "c");
        assert_eq!(of(&two, "o", "p"), "d");
        for wrong in ["m=a", "m,l", "1m,l=a", "m,l,k=a"] {
            assert!(allowed(&[wrong]).is_err(), "{wrong}");
        }
    }
}
