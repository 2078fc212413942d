//! The host of a script: what its commands and socket options set.
//!
//! Every setting is a parameter of the sender, without effect on congestion control, or refused
//! with its name: a script never passes under other settings than its own.

use windward_core::units::Duration;

use super::lexer::clipped;
use super::parser::{Call, Expression};
use super::{Fault, Place, Subject};

/// The settings of the host under test, to begin with those of a script without commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) control: String,
    pub(super) initial_window: u64,
    pub(super) rto_floor: Duration,
    pub(super) sysctls: Sysctls,
    pub(super) device: Device,
    pub(super) socket: Socket,
}

/// The values below net.ipv4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sysctls {
    /// 0 never, 1 always, 2 if the peer asks.
    pub(super) ecn: u64,
    pub(super) timestamps: bool,
    pub(super) sack: bool,
    pub(super) scaling: bool,
    pub(super) slow_start_after_idle: bool,
    pub(super) reordering: u64,
    pub(super) tail_probes: bool,
}

/// The interface and its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Device {
    /// False if it refuses all packets.
    pub(super) open: bool,
    pub(super) paced: bool,
    /// Bytes of an IP packet.
    pub(super) mtu: u64,
}

/// The options of sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Socket {
    /// TCP_MAXSEG; 0 if it is not set.
    pub(super) max_segment: u64,
    /// TCP_NODELAY.
    pub(super) no_delay: bool,
}

impl Default for Host {
    /// The defaults of Linux.
    fn default() -> Self {
        Host {
            control: "cubic".to_owned(),
            initial_window: 10,
            rto_floor: Duration::from_millis(200),
            sysctls: Sysctls {
                ecn: 2,
                timestamps: true,
                sack: true,
                scaling: true,
                slow_start_after_idle: true,
                reordering: 3,
                tail_probes: true,
            },
            device: Device { open: true, paced: false, mtu: 1500 },
            socket: Socket::default(),
        }
    }
}

/// Settings without effect on a sender whose application, memory and receiver are unlimited and
/// whose packets are segments. Each begins one or several names.
const WITHOUT_EFFECT: [&str; 24] = [
    "tcp_rmem",
    "tcp_wmem",
    "tcp_mem",
    "tcp_syn_retries",
    "tcp_synack_retries",
    "tcp_retries",
    "tcp_tso_win_divisor",
    "tcp_min_tso_segs",
    "tcp_tso_rtt_log",
    "tcp_limit_output_bytes",
    "tcp_notsent_lowat",
    "tcp_fastopen",
    "tcp_syncookies",
    "tcp_ecn_option",
    "tcp_ecn_fallback",
    "tcp_dsack",
    "tcp_moderate_rcvbuf",
    "tcp_autocorking",
    "tcp_adv_win_scale",
    "tcp_no_metrics_save",
    "tcp_max_syn_backlog",
    "tcp_comp_sack",
    "tcp_backlog_ack_defer",
    "tcp_shrink_window",
];

/// The words of a command, up to where its output goes. A quoted text is a part of its word.
fn shell_words(command: &str) -> Vec<&str> {
    let mut quoted = false;
    let ends = |symbol: char| {
        quoted ^= symbol == '"';
        !quoted && symbol.is_whitespace()
    };
    let words: Vec<&str> = command.split(ends).filter(|word| !word.is_empty()).collect();
    let to_null = words.iter().position(|word| word.contains("/dev/null"));
    match to_null {
        Some(at) if words[..at].last() == Some(&">") => words[..at - 1].to_vec(),
        Some(at) => words[..at].to_vec(),
        None => words,
    }
}

impl Host {
    /// Runs the commands of a script.
    pub(super) fn command(&mut self, text: &str, place: Place) -> Result<(), Fault> {
        let text = text.replace("\\\n", " ");
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            for command in line.split(';').flat_map(|part| part.split("&&")) {
                self.single(command.trim(), place)?;
            }
        }
        Ok(())
    }

    fn single(&mut self, command: &str, place: Place) -> Result<(), Fault> {
        let words = shell_words(command);
        let refused = || {
            let message = format!("the command `{}`", clipped(command));
            Err(Fault::new(place, Subject::Unmodelled, message))
        };
        let Some((program, arguments)) = words.split_first() else { return Ok(()) };
        let name = program.rsplit('/').next().unwrap_or(program);
        match name {
            "defaults.sh" => {
                self.defaults();
                Ok(())
            }
            _ if name.starts_with("sysctl_restore_") => Ok(()),
            "sysctl" | "set_sysctls.py" => {
                for argument in arguments.iter().filter(|argument| !argument.starts_with('-')) {
                    self.sysctl(argument, place)?;
                }
                Ok(())
            }
            "echo" => match arguments {
                ["3", ">", "/sys/module/tcp_cubic/parameters/hystart_detect"] => Ok(()),
                [value, ">", path] if path.starts_with("/proc/sys/") => {
                    self.sysctl(&format!("{path}={value}"), place)
                }
                _ => refused(),
            },
            "ip" => match arguments {
                ["tcp_metrics", "flush", ..] => Ok(()),
                ["route", "change" | "replace" | "add", rest @ ..] => self.route(rest, place),
                _ => refused(),
            },
            "tc" => match arguments {
                ["qdisc", "add" | "replace" | "change", "dev", _, "root", queue @ ..] => {
                    match queue {
                        ["pfifo" | "bfifo" | "pfifo_fast" | "noqueue"] => {
                            (self.device.open, self.device.paced) = (true, false);
                        }
                        ["pfifo", "limit", "0"] => self.device.open = false,
                        // Linux paces where the queue is fq.
                        ["fq", ..] => (self.device.open, self.device.paced) = (true, true),
                        _ => return refused(),
                    }
                    Ok(())
                }
                _ => refused(),
            },
            // Segments are whole with and without offloads.
            "ethtool" if arguments.first() == Some(&"-K") => Ok(()),
            "true" | ":" => Ok(()),
            _ => refused(),
        }
    }

    /// Sets the values of `defaults.sh`, in packetdrill's repository and in the kernel's selftests.
    fn defaults(&mut self) {
        *self = Host::default();
        (self.sysctls.ecn, self.sysctls.slow_start_after_idle) = (0, false);
    }

    fn sysctl(&mut self, setting: &str, place: Place) -> Result<(), Fault> {
        let refused = |why: &str| {
            let message = format!("the setting `{}`{why}", clipped(setting));
            Err(Fault::new(place, Subject::Unmodelled, message))
        };
        let Some((path, value)) = setting.split_once('=') else { return refused("") };
        let path = path.strip_prefix("/proc/sys/").unwrap_or(path).replace('/', ".");
        let value = value.trim_matches('"');
        if path.starts_with("net.core.") {
            return match path.as_str() {
                "net.core.default_qdisc" => refused(""),
                _ => Ok(()),
            };
        }
        let Some(name) = path.strip_prefix("net.ipv4.") else { return refused("") };
        if name == "tcp_congestion_control" {
            value.clone_into(&mut self.control);
            return Ok(());
        }
        if WITHOUT_EFFECT.iter().any(|known| name.starts_with(known)) {
            return Ok(());
        }
        let Ok(number) = value.parse::<u64>() else { return refused("") };
        let set = &mut self.sysctls;
        match (name, number) {
            ("tcp_ecn", 0..=2) => set.ecn = number,
            ("tcp_timestamps", 0..=2) => set.timestamps = number > 0,
            ("tcp_sack", 0..=1) => set.sack = number > 0,
            ("tcp_window_scaling", 0..=1) => set.scaling = number > 0,
            ("tcp_slow_start_after_idle", 0..=1) => set.slow_start_after_idle = number > 0,
            ("tcp_reordering", 1..=300) => set.reordering = number,
            ("tcp_early_retrans", 0..=4) => set.tail_probes = number >= 3,
            ("tcp_recovery", 1) | ("tcp_frto", 1..=2) | ("tcp_fack" | "tcp_mtu_probing", 0) => {}
            ("tcp_pacing_ss_ratio", 200) | ("tcp_pacing_ca_ratio", 120) => {}
            ("tcp_rto_min_us", 1..) => self.rto_floor = Duration::from_micros(number),
            _ => return refused(""),
        }
        Ok(())
    }

    fn route(&mut self, words: &[&str], place: Place) -> Result<(), Fault> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let refused = || {
                let message = format!("the route option `{}`", clipped(word));
                Err(Fault::new(place, Subject::Unmodelled, message))
            };
            match *word {
                // Where it leads.
                "via" | "dev" | "src" | "proto" | "table" | "metric" => {
                    words.next();
                }
                "initcwnd" => match words.next().and_then(|value| value.parse().ok()) {
                    Some(window @ 1..=10_000) => self.initial_window = window,
                    _ => return refused(),
                },
                "rto_min" => {
                    let time =
                        words.next().map(|value| value.trim_end_matches("ms").parse::<u64>());
                    match time {
                        Some(Ok(ms @ 1..=60_000)) => self.rto_floor = Duration::from_millis(ms),
                        _ => return refused(),
                    }
                }
                "congctl" => match words.next() {
                    Some(name) => (*name).clone_into(&mut self.control),
                    None => return refused(),
                },
                "initrwnd" | "quickack" => {
                    words.next();
                }
                address if address.contains('.') || address.contains(':') => {}
                "default" => {}
                _ => return refused(),
            }
        }
        Ok(())
    }

    /// Sets a socket option.
    pub(super) fn option(&mut self, call: &Call, place: Place) -> Result<(), Fault> {
        let value = call.listed(3);
        let level = call.word(1).trim_start_matches("IPPROTO_").trim_start_matches("SOL_");
        let known = match (level, call.word(2)) {
            ("SOCKET", "SO_REUSEADDR" | "SO_REUSEPORT" | "SO_SNDBUF" | "SO_RCVBUF") => true,
            ("SOCKET", "SO_KEEPALIVE") => value == Some(0),
            ("IP", "IP_TOS" | "IP_MTU_DISCOVER" | "IP_TTL") => true,
            ("TCP", "TCP_QUICKACK") => true,
            ("TCP", "TCP_NODELAY") => {
                self.socket.no_delay = value != Some(0);
                value.is_some()
            }
            ("TCP", "TCP_MAXSEG") => match value {
                Some(size @ 88..=32_767) => {
                    self.socket.max_segment = size.unsigned_abs();
                    true
                }
                _ => false,
            },
            ("TCP", "TCP_CONGESTION") => match call.arguments.get(3) {
                Some(Expression::Text(name)) => {
                    name.clone_into(&mut self.control);
                    true
                }
                _ => false,
            },
            _ => false,
        };
        if known {
            return Ok(());
        }
        let (level, option) = (clipped(call.word(1)), clipped(call.word(2)));
        let message = format!("the socket option {option} of {level}");
        Err(Fault::new(place, Subject::Sockets, message))
    }
}
