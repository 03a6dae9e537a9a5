//! Five thousand services: how long the load takes, and one endpoint's change.

use crate::world::{service, this_node};
use proxy::{Endpoint, Proxy, Service};
use std::time::Instant;
use sys::netlink::{NetworkNamespace, within};

fn services(count: u16) -> Vec<Service> {
    (0..count)
        .map(|n| {
            let [high, low] = n.to_be_bytes();
            let mut it = service(&format!("service-{n}"));
            it.cluster_ips = vec![[10, 96 + high / 64, high, low].into()];
            it.ports[0].endpoints = (1..=3)
                .map(|e| Endpoint::ready([10, 244, high, low.wrapping_add(e)].into(), 8080, false))
                .collect();
            it
        })
        .collect()
}

#[test]
fn one_endpoint_among_five_thousand_services() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    within(&namespace, || {
        let mut proxy = Proxy::new(&this_node()).expect("a proxy");
        let mut all = services(5000);
        let changes: Vec<_> = all.iter().map(|s| (s.name.clone(), Some(s.clone()))).collect();
        let begin = Instant::now();
        let touched = proxy.update(&changes).expect("loaded");
        println!("load of 5,000 services: {:?}, {touched} elements", begin.elapsed());
        let mut times = Vec::new();
        for n in 0..20_u8 {
            let it = &mut all[100 + usize::from(n)];
            it.ports[0].endpoints[1] = Endpoint::ready([10, 245, 0, n].into(), 8080, true);
            let begin = Instant::now();
            let touched = proxy.update(&[(it.name.clone(), Some(it.clone()))]).expect("written");
            times.push(begin.elapsed());
            assert!(touched <= 10, "{touched}");
        }
        times.sort();
        println!("one endpoint: median {:?}, slowest {:?}", times[10], times[19]);
    })
    .expect("inside");
}
