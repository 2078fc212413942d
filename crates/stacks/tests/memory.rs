//! Memory of a long transfer, in a process of its own, so that nothing else counts.
#![cfg(target_os = "linux")]

mod common;

use common::PATH;

/// Peak memory of the process, bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

#[test]
fn a_gigabyte_passes_through_a_few_megabytes() {
    let before = peak();
    for name in ["quinn:cubic", "noq:cubic"] {
        // 8 s at 1 Gbit/s and some more for headers and slow start; a queue of one round trip of 10
        // ms.
        let outcome = common::run(
            PATH,
            &windward_stacks::all(),
            &[
                ("flows.bulk.protocol", name),
                ("flows.bulk.size", "1GB"),
                ("dumbbell.bottleneck.rate", "1Gbit"),
                ("dumbbell.bottleneck.delay", "5ms"),
                ("dumbbell.bottleneck.queue", "1250kB"),
                ("dumbbell.access.rate", "10Gbit"),
            ],
        );
        let flow = &outcome.flows[0];
        assert_eq!((flow.goodput_bps * 30.0 / 8.0).round(), 1e9, "{name}");
        let seconds = flow.completed.expect("an end").as_secs_f64();
        assert!((8.0..15.0).contains(&seconds), "{name}: {seconds}");
        // 2.5 MB are in flight and in the queue; each end may hold as much, and so may data written
        // ahead: 64 MiB is a wide bound for memory that does not grow with the transfer.
        let grown = peak() - before;
        assert!(grown < 64 << 20, "{name}: {grown} bytes");
    }
}
