//! Allocation of node ports to a Service.

use std::{collections::HashMap, ops::RangeInclusive};

use api::core::{Service, ServicePort};
use object::Status;
use schema::{ErrorList, FieldPath};

use super::{bitmap::Bitmap, range::random};

/// The allocation of one Service's ports in the bitmap. A dry run allocates nothing.
#[derive(Debug)]
pub(super) struct PortAllocation<'a> {
    range: &'a RangeInclusive<i32>,
    map: &'a mut Bitmap,
    dry_run: bool,
    /// The ports that were allocated for this Service.
    pub(super) own: Vec<i32>,
}

/// The number before the first port that a dry run returns; such ports are never allocated.
const DRY_RUN: i32 = 32_768;
const ALLOCATED: &str = "provided port is already allocated";

impl<'a> PortAllocation<'a> {
    pub(super) fn new(range: &'a RangeInclusive<i32>, map: &'a mut Bitmap, dry_run: bool) -> Self {
        Self { range, map, dry_run, own: Vec::new() }
    }

    /// Allocates the node ports that a Service needs, including the health check node port.
    pub(super) fn allocate_for(
        &mut self,
        service: &mut Service,
        old: Option<&Service>,
    ) -> Result<(), Status> {
        let name = service.metadata().name().to_owned();
        if service.spec().needs_node_ports() && !service.spec().ports().is_empty() {
            match old {
                None => self.give(service, &name)?,
                Some(old) => self.keep(service, old, &name)?,
            }
        }
        let kept = old.is_some_and(|old| old.spec().needs_health_check());
        if service.spec().needs_health_check() && !kept {
            let port = service.spec().health_check_node_port();
            if port == 0 {
                service
                    .spec_mut()
                    .set_health_check_node_port(self.next("a HealthCheck NodePort 0")?);
            } else if let Err(why) = self.allocate(port) {
                let why =
                    format!("failed to allocate requested HealthCheck NodePort {port}: {why}");
                return Err(Status::internal(why));
            }
        }
        Ok(())
    }

    /// Allocates the ports of a new Service. Entries with the same port share a node port.
    fn give(&mut self, service: &mut Service, name: &str) -> Result<(), Status> {
        let (more, spec) = (gets_more(service), service.spec_mut());
        let wanted: Vec<_> =
            spec.ports().iter().map(|port| (port.port(), port.node_port())).collect();
        let mut given: HashMap<i32, i32> = HashMap::new();
        for (at, port) in spec.ports_mut().iter_mut().enumerate() {
            let (own, n) = (port.port(), port.node_port());
            if n == 0 && !more {
                continue;
            }
            let asked = match given.get(&own) {
                Some(same) if n == 0 || n == *same => {
                    port.set_node_port(*same);
                    continue;
                }
                Some(_) => n,
                None => wanted.iter().find(|it| it.0 == own && it.1 != 0).map_or(0, |it| it.1),
            };
            let node = if asked == 0 {
                self.next("a nodePort")?
            } else {
                self.allocate(asked).map_err(|why| refused(name, at, asked, why))?;
                asked
            };
            given.entry(own).or_insert(node);
            port.set_node_port(node);
        }
        Ok(())
    }

    /// Allocates the further ports of an existing Service.
    fn keep(&mut self, service: &mut Service, old: &Service, name: &str) -> Result<(), Status> {
        let before: Vec<i32> = old.spec().ports().iter().map(ServicePort::node_port).collect();
        let more = gets_more(service);
        let mut pairs = Vec::new();
        for (at, port) in service.spec_mut().ports_mut().iter_mut().enumerate() {
            let n = port.node_port();
            if n == 0 && !more {
                continue;
            }
            if n == 0 {
                port.set_node_port(self.next("a nodePort")?);
            } else if !before.contains(&n) && !self.own.contains(&n) {
                self.allocate(n).map_err(|why| refused(name, at, n, why))?;
            }
            let pair = (port.protocol().to_owned(), port.node_port());
            if pairs.contains(&pair) {
                let why = format!("duplicate nodePort: {{{} {}}}", pair.0, pair.1);
                return Err(Status::failure(500, "", why));
            }
            pairs.push(pair);
        }
        Ok(())
    }

    fn allocate(&mut self, port: i32) -> Result<(), String> {
        let place = place(self.range, port);
        if self.dry_run {
            if self.own.contains(&port) || place.is_some_and(|place| self.map.has(place)) {
                return Err(ALLOCATED.to_owned());
            }
        } else {
            let place = place.ok_or_else(|| {
                format!(
                    "provided port is not in the valid range. The range of valid ports is {}",
                    text(self.range)
                )
            })?;
            if self.map.has(place) {
                return Err(ALLOCATED.to_owned());
            }
            self.map.set(place, true);
        }
        self.own.push(port);
        Ok(())
    }

    fn next(&mut self, what: &str) -> Result<i32, Status> {
        if self.dry_run {
            // In a dry run the ports are not validated yet. Upstream's number wraps, too.
            let port = self.own.iter().max().unwrap_or(&DRY_RUN).wrapping_add(1);
            self.own.push(port);
            return Ok(port);
        }
        let full = || Status::internal(format!("failed to allocate {what}: range is full"));
        let place =
            dynamic_band_order(self.range).find(|place| !self.map.has(*place)).ok_or_else(full)?;
        let port =
            i32::try_from(place).ok().and_then(|place| self.range.start().checked_add(place));
        let port = port.ok_or_else(full)?;
        self.map.set(place, true);
        self.own.push(port);
        Ok(port)
    }
}

/// Formats a range as upstream does.
pub(super) fn text(range: &RangeInclusive<i32>) -> String {
    format!("{}-{}", range.start(), range.end())
}

/// The offset of a port in the range.
pub(super) fn place(range: &RangeInclusive<i32>, port: i32) -> Option<usize> {
    range.contains(&port).then(|| usize::try_from(port - range.start()).unwrap_or_default())
}

/// Whether ports are allocated that the Service does not name.
fn gets_more(service: &Service) -> bool {
    let spec = service.spec();
    spec.type_() == "NodePort" || spec.allocate_load_balancer_node_ports().unwrap_or(true)
}

fn refused(name: &str, at: usize, port: i32, why: String) -> Status {
    let mut errs = ErrorList::default();
    let list = FieldPath::Root.field("spec");
    errs.invalid(&list.field("ports").index(at).field("nodePort"), port, why);
    errs.into_status("", "Service", name)
}

/// All offsets, beginning at a random one of the upper band, and then those of the lower band,
/// which is for ports that users choose.
fn dynamic_band_order(range: &RangeInclusive<i32>) -> impl Iterator<Item = usize> {
    let size = usize::try_from(range.end() - range.start() + 1).unwrap_or_default();
    let band = if size <= 16 { 0 } else { (size / 32).clamp(16, 128) };
    let around = |size: usize| {
        let random = usize::try_from(random() >> 32).unwrap_or_default();
        let begin = random.checked_rem(size).unwrap_or_default();
        (0..size).map(move |n| (begin + n) % size)
    };
    around(size - band).map(move |place| band + place).chain(around(band))
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn service(text: &str) -> Service {
        Service::from(from_json(text.as_bytes()).unwrap())
    }

    const TWO: &str = r#"{"metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[
        {"port":80,"protocol":"TCP"},{"port":80,"protocol":"UDP"},{"port":81,"nodePort":30001}]}}"#;

    #[test]
    fn the_same_port_has_the_same_place_and_all_are_taken() {
        let (range, mut map) = (30_000..=30_031, Bitmap::default());
        let mut two = service(TWO);
        let mut ports = PortAllocation::new(&range, &mut map, false);
        ports.allocate_for(&mut two, None).unwrap();
        let given: Vec<i32> = two.spec().ports().iter().map(ServicePort::node_port).collect();
        assert_eq!(given[0], given[1]);
        assert!((30_016..=30_031).contains(&given[0]), "what nobody asks for comes from above");
        assert_eq!((given[2], map.taken().count()), (30_001, 2));
        let mut ports = PortAllocation::new(&range, &mut map, false);
        let again = ports.allocate_for(&mut service(TWO), None).unwrap_err();
        assert!(again.message().contains("spec.ports[2].nodePort: Invalid value: 30001"));
    }

    #[test]
    fn a_dry_run_takes_nothing() {
        let (range, mut map) = (30_000..=30_031, Bitmap::default());
        let mut two = service(TWO);
        PortAllocation::new(&range, &mut map, true).allocate_for(&mut two, None).unwrap();
        assert_eq!(two.spec().ports().iter().next().map(ServicePort::node_port), Some(32_769));
        assert_eq!(map, Bitmap::default());
    }

    #[test]
    fn a_dry_run_counts_on_from_the_largest_number() {
        let (range, mut map) = (30_000..=30_031, Bitmap::default());
        let text =
            r#"{"spec":{"type":"NodePort","ports":[{"port":1,"nodePort":2147483647},{"port":2}]}}"#;
        let mut largest = service(text);
        PortAllocation::new(&range, &mut map, true).allocate_for(&mut largest, None).unwrap();
        let given: Vec<i32> = largest.spec().ports().iter().map(ServicePort::node_port).collect();
        assert_eq!(given, [i32::MAX, i32::MIN], "validation refuses both");
    }

    #[test]
    fn when_all_are_taken_that_is_said() {
        let (range, mut map) = (30_000..=30_000, Bitmap::default());
        map.set(0, true);
        let mut ports = PortAllocation::new(&range, &mut map, false);
        let mut one = service(r#"{"spec":{"type":"NodePort","ports":[{"port":1}]}}"#);
        let status = ports.allocate_for(&mut one, None).unwrap_err();
        assert!(status.message().ends_with("failed to allocate a nodePort: range is full"));
    }
}
