//! Counters of the processor and the system, where they can be read.

#[cfg(target_os = "linux")]
pub(super) use linux::{Instructions, peak_memory_bytes, reset_peak_memory};
#[cfg(not(target_os = "linux"))]
pub(super) use unknown::{Instructions, peak_memory_bytes, reset_peak_memory};

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    use perf_event::events::Hardware;
    use perf_event::{Builder, Counter};

    /// Counts the instructions this thread retires.
    #[derive(Debug)]
    pub(in super::super) struct Instructions(Counter);

    impl Instructions {
        /// `None` without hardware counters, as in most virtual machines, or without the
        /// right to read them.
        pub(in super::super) fn start() -> Option<Self> {
            let mut counter = Builder::new(Hardware::INSTRUCTIONS).build().ok()?;
            counter.enable().ok()?;
            Some(Instructions(counter))
        }

        pub(in super::super) fn stop(mut self) -> Option<u64> {
            self.0.disable().ok()?;
            // A counter that was never scheduled on the processor reads zero.
            self.0.read().ok().filter(|&count| count > 0)
        }
    }

    /// Resets [`peak_memory_bytes`] to the current use of memory, where the kernel allows it.
    pub(in super::super) fn reset_peak_memory() {
        let _ = fs::write("/proc/self/clear_refs", "5");
    }

    /// The largest resident set so far (`VmHWM`).
    pub(in super::super) fn peak_memory_bytes() -> Option<u64> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }
}

#[cfg(not(target_os = "linux"))]
mod unknown {
    #[derive(Debug)]
    pub(in super::super) struct Instructions;

    impl Instructions {
        pub(in super::super) fn start() -> Option<Self> {
            None
        }

        pub(in super::super) fn stop(self) -> Option<u64> {
            None
        }
    }

    pub(in super::super) fn reset_peak_memory() {}

    pub(in super::super) fn peak_memory_bytes() -> Option<u64> {
        None
    }
}
