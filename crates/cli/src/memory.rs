//! Memory that a run can have.

use std::fs;
use std::path::Path;

/// Bytes that this process can still take, of the machine, of its control groups and of its address
/// space; `None` where the system does not tell.
pub fn free() -> Option<u64> {
    let text = |path: &str| fs::read_to_string(path).ok();
    let available = text("/proc/meminfo").and_then(|info| {
        let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    });
    let space = text("/proc/self/limits").and_then(|limits| {
        let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
        line.split_whitespace().next()?.parse().ok()
    });
    // The unified hierarchy has one line, 0::PATH.
    let groups = text("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let group = group.map(|path| Path::new("/sys/fs/cgroup").join(path));
    let of_groups = group.iter().flat_map(|path| path.ancestors()).map_while(|path| {
        let read = |file: &str| fs::read_to_string(path.join(file)).ok();
        let number = |file: &str| -> Option<u64> { read(file)?.trim().parse().ok() };
        let free = || {
            // The cache of files is given back for the asking.
            let stat = read("memory.stat").unwrap_or_default();
            let cached = stat.lines().filter_map(|line| {
                let (key, bytes) = line.split_once(' ')?;
                matches!(key, "active_file" | "inactive_file").then(|| bytes.parse::<u64>().ok())?
            });
            let used = number("memory.current")?.saturating_sub(cached.sum());
            Some(number("memory.max")?.saturating_sub(used))
        };
        path.starts_with("/sys/fs/cgroup").then(free)
    });
    of_groups.flatten().chain(available).chain(space).min()
}
