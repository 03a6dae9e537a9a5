//! The Prometheus protobuf format: length-delimited `io.prometheus.client.MetricFamily` messages.

use std::collections::{BTreeMap, HashMap};

use super::{
    allowed,
    native_histogram::{NativeHistogram, ZERO_THRESHOLD},
};

pub(crate) const CONTENT_TYPE: &str = "application/vnd.google.protobuf; \
     proto=io.prometheus.client.MetricFamily; encoding=delimited; escaping=underscores";

/// Whether a client with this `Accept` header prefers protobuf to text.
pub(crate) fn is_accepted(accept: &str) -> bool {
    let mut best = (false, 0.0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let parameters: HashMap<&str, &str> =
            parts.filter_map(|parameter| parameter.split_once('=')).collect();
        let has = |name: &str, value| parameters.get(name).is_none_or(|own| *own == value);
        let protobuf = kind == "application/vnd.google.protobuf"
            && has("proto", "io.prometheus.client.MetricFamily")
            && has("encoding", "delimited");
        let weight = parameters.get("q").map_or(1.0, |q| q.parse().unwrap_or(0.0));
        if (protobuf || matches!(kind, "text/plain" | "text/*" | "*/*")) && weight > best.1 {
            best = (protobuf, weight);
        }
    }
    best.0
}

/// Converts the text format to protobuf. `native` has the native histograms by series: name and
/// labels in braces.
pub(crate) fn encode(text: &str, native: &HashMap<String, NativeHistogram>) -> Vec<u8> {
    let mut out = Message::default();
    let mut family = Family::default();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            family.finish(native, &mut out);
            family = Family { name, help, ..Family::default() };
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            family.kind = rest.split_once(' ').map_or("", |(_, kind)| kind);
        } else if let Some((series, value)) = line.rsplit_once(' ') {
            family.add(series, value.parse().unwrap_or(f64::NAN));
        }
    }
    family.finish(native, &mut out);
    out.0
}

/// A metric with all of its series.
#[derive(Default)]
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    /// Series by labels, without the `le` label of buckets.
    series: BTreeMap<String, Series>,
}

/// The values of one series.
#[derive(Default)]
struct Series {
    value: f64,
    count: f64,
    sum: f64,
    buckets: Vec<(f64, f64)>,
}

impl Family<'_> {
    fn add(&mut self, series: &str, value: f64) {
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let mut labels = allowed::split(labels.strip_suffix('}').unwrap_or(labels));
        let part = name.strip_prefix(self.name).filter(|_| self.kind == "histogram");
        let bound = match part {
            Some("_bucket") => labels.iter().position(|(name, _)| *name == "le"),
            _ => None,
        };
        let bound = bound.map(|at| labels.remove(at).1);
        let key: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let own = self.series.entry(key.join(",")).or_default();
        match (part, bound) {
            (Some("_sum"), _) => own.sum = value,
            (Some("_count"), _) => own.count = value,
            (_, Some("+Inf")) => {} // the count of all
            (_, Some(bound)) => own.buckets.push((bound.parse().unwrap_or(f64::NAN), value)),
            _ => own.value = value,
        }
    }

    fn finish(&self, native: &HashMap<String, NativeHistogram>, out: &mut Message) {
        if self.series.is_empty() {
            return;
        }
        // The MetricType, and the field of Metric that holds its value.
        let (kind, field) = match self.kind {
            "counter" => (0, 3),
            "gauge" => (1, 2),
            "histogram" => (4, 7),
            _ => (3, 5),
        };
        let mut family = Message::default();
        family.bytes(1, self.name.as_bytes());
        family.bytes(2, self.help.as_bytes());
        family.integer(3, kind);
        for (labels, series) in &self.series {
            let mut metric = Message::default();
            for (name, value) in allowed::split(labels) {
                let mut pair = Message::default();
                pair.bytes(1, name.as_bytes());
                pair.bytes(2, unescape(value).as_bytes());
                metric.bytes(1, &pair.0);
            }
            let value = if field == 7 {
                series.histogram(native.get(&format!("{}{{{labels}}}", self.name)))
            } else {
                let mut value = Message::default();
                value.double(1, series.value);
                value
            };
            metric.bytes(field, &value.0);
            family.bytes(4, &metric.0);
        }
        out.varint(family.0.len() as u64);
        out.0.extend(family.0);
    }
}

impl Series {
    fn histogram(&self, native: Option<&NativeHistogram>) -> Message {
        let mut out = Message::default();
        out.integer(1, whole(self.count));
        out.double(2, self.sum);
        for (bound, count) in &self.buckets {
            let mut bucket = Message::default();
            bucket.integer(1, whole(*count));
            bucket.double(2, *bound);
            out.bytes(3, &bucket.0);
        }
        let Some(native) = native else { return out };
        out.integer(5, zigzag(native.schema.into()));
        out.double(6, ZERO_THRESHOLD);
        out.integer(7, native.zero);
        let (spans, deltas) = native.spans();
        for (offset, length) in spans {
            let mut span = Message::default();
            span.integer(1, zigzag(offset.into()));
            span.integer(2, length.into());
            out.bytes(12, &span.0);
        }
        deltas.into_iter().for_each(|delta| out.integer(13, zigzag(delta)));
        out
    }
}

fn unescape(value: &str) -> String {
    let (mut out, mut chars) = (String::with_capacity(value.len()), value.chars());
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            (c, false) => out.push(c),
        }
    }
    out
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
fn whole(count: f64) -> u64 {
    count as u64
}

/// ZigZag encoding of a signed number, as for protobuf's sint types.
fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)).cast_unsigned()
}

/// A protobuf message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n.to_le_bytes()[0] | 0x80);
            n >>= 7;
        }
        self.0.push(n.to_le_bytes()[0]);
    }

    fn integer(&mut self, field: u64, n: u64) {
        self.varint(field << 3);
        self.varint(n);
    }

    fn double(&mut self, field: u64, n: f64) {
        self.varint((field << 3) | 1);
        self.0.extend(n.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint((field << 3) | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOBUF: &str = "application/vnd.google.protobuf;\
                            proto=io.prometheus.client.MetricFamily;encoding=delimited";

    #[test]
    fn the_preferred_form_is_chosen() {
        assert!(is_accepted(PROTOBUF));
        assert!(is_accepted(&format!("{PROTOBUF};q=0.7,text/plain;version=0.0.4;q=0.3")));
        assert!(!is_accepted(&format!("{PROTOBUF};q=0.2,text/plain;q=0.3")));
        for text in
            ["", "*/*", "text/plain", "application/json", "application/vnd.google.protobuf;proto=x"]
        {
            assert!(!is_accepted(text), "{text}");
        }
    }

    fn length(bytes: &[u8]) -> u8 {
        u8::try_from(bytes.len()).expect("a short message")
    }

    #[test]
    fn a_gauge_in_bytes() {
        let text = "# HELP g h\n# TYPE g gauge\ng{a=\"x\\\"y\"} 2\n";
        let label = b"\x0a\x08\x0a\x01a\x12\x03x\"y";
        let value = [0x12, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0x40];
        let metric = [&label[..], &value].concat();
        let head = [b"\x0a\x01g\x12\x01h\x18\x01\x22".as_slice(), &[length(&metric)]].concat();
        let family = [head, metric].concat();
        assert_eq!(encode(text, &HashMap::new()), [vec![length(&family)], family].concat());
    }

    #[test]
    fn a_histogram_has_both_forms() {
        let histogram = super::super::Histogram::with_native(&[0.5, 1.0]);
        [0.25, 0.75, 4.0].into_iter().for_each(|size| histogram.observe(size));
        let mut text = "# HELP h x\n# TYPE h histogram\n".to_owned();
        histogram.write("h", "a=\"b\"", &mut text);
        let native = HashMap::from([("h{a=\"b\"}".to_owned(), histogram.native().expect("kept"))]);
        let bytes = encode(&text, &native);
        let has = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|own| own == part);
        let (classic, bound) = ([0x1a, 11, 0x08, 2, 0x11], 1f64.to_le_bytes());
        assert!(has(&bytes, &[&classic[..], &bound].concat()), "two are at most 1: {bytes:?}");
        assert!(has(&bytes, &[0x28, 6, 0x31]), "the schema is 3: {bytes:?}");
        let span = [0x62, 4, 0x08, 31, 0x10, 1];
        assert!(has(&bytes, &span), "the first span is at -16: {bytes:?}");
        assert!(!has(&encode(&text, &HashMap::new()), &span), "no span without native counts");
    }
}
