/** A scenario with 20 million packets on their way, for which 1 GiB is not enough. */
export const LARGE = `duration = "1s"
[endpoint]
initial_window = 1000000
[dumbbell]
bottleneck = { rate = "400Gbit", delay = "20s", queue = "10000000p" }
access = { rate = "400Gbit", delay = "1ms", queue = "10000000p" }
[[flows]]
group = "many"
protocol = "cubic"
count = 20
`;
