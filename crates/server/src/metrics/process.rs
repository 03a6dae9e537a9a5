//! Metrics of the process, read from /proc.

use std::fmt::Write;

use super::head;

/// Clock ticks per second in /proc (USER_HZ).
const TICKS: f64 = 100.0;
const PAGE: u64 = 4096;

/// Writes the metrics of this process.
pub fn report_process(out: &mut String) {
    panics::report(out);
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let stat = read("stat");
    let fields: Vec<&str> =
        stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
    let field = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    let pages = read("statm");
    let page = |at: usize| {
        let count = pages.split(' ').nth(at).and_then(|text| text.trim().parse::<u64>().ok());
        count.unwrap_or_default() * PAGE
    };
    let booted = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let booted = booted.lines().find_map(|line| line.strip_prefix("btime "));
    let booted = booted.and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
    let limits = read("limits");
    let limit = |name: &str| {
        let values = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        values.split_whitespace().next().unwrap_or("0").to_owned()
    };
    let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let mut put = |name: &str, kind: &str, help: &str, value: &dyn std::fmt::Display| {
        head(name, kind, help, out);
        let _ = writeln!(out, "{name} {value}");
    };
    let cpu = (field(11) + field(12)) / TICKS;
    put("process_cpu_seconds_total", "counter", "User and system CPU time in seconds.", &cpu);
    put(
        "process_max_fds",
        "gauge",
        "Maximum number of open file descriptors.",
        &limit("Max open files"),
    );
    put("process_open_fds", "gauge", "Number of open file descriptors.", &files);
    put("process_resident_memory_bytes", "gauge", "Resident memory in bytes.", &page(1));
    let started = booted + field(19) / TICKS;
    put(
        "process_start_time_seconds",
        "gauge",
        "Start time of the process in seconds since 1970.",
        &started,
    );
    put("process_virtual_memory_bytes", "gauge", "Virtual memory in bytes.", &page(0));
    let most = match limit("Max address space").as_str() {
        "unlimited" => "18446744073709551615".to_owned(),
        most => most.to_owned(),
    };
    put("process_virtual_memory_max_bytes", "gauge", "Maximum virtual memory in bytes.", &most);
    let traffic = read("net/netstat");
    let octets = |name: &str| {
        let mut lines = traffic.lines().filter_map(|line| line.strip_prefix("IpExt: "));
        let (names, numbers) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let at = names.split(' ').position(|own| own == name);
        at.and_then(|at| numbers.split(' ').nth(at)).unwrap_or("0").to_owned()
    };
    for (name, help, field) in [
        ("process_network_receive_bytes_total", "Bytes received over the network.", "InOctets"),
        ("process_network_transmit_bytes_total", "Bytes sent over the network.", "OutOctets"),
    ] {
        put(name, "counter", help, &octets(field));
    }
}
