//! The BPF program in the kernel.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use libbpf_rs::btf::types::{FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, ReferencesType};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, ObjectBuilder, OpenObject};

use crate::connection::Answer;

/// The program, compiled by `bpf/build.sh`.
const PROGRAM: &[u8] = include_bytes!("../bpf/windward.bpf.o");

/// Name of the controller in the kernel that a daemon drives.
pub const CONTROLLER: &str = "windward";

/// Largest number of connections with a controller of the daemon. Further ones run NewReno.
pub(crate) const SLOTS: u32 = 4096;

/// Maps that stay in the file system of BPF while the program is loaded.
const MAPS: [&str; 4] = ["events", "answers", "slots", ".bss"];

/// The controller may be chosen by anybody, and as the default of any network namespace.
pub(crate) const NON_RESTRICTED: u32 = 1;

/// Why the kernel does not run the program.
#[derive(Debug)]
pub enum KernelError {
    /// The kernel lacks something, by name.
    Lacks(String),
    /// This process lacks these capabilities.
    Rights(String),
    /// It refused a step.
    Refused {
        /// The step.
        step: &'static str,
        /// The reason in the words of libbpf.
        why: String,
    },
    /// A file could not be read or written.
    File {
        /// Its path.
        path: PathBuf,
        /// The reason.
        why: std::io::Error,
    },
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelError::Lacks(what) => write!(f, "this kernel lacks {what}"),
            KernelError::Rights(names) => {
                write!(f, "this needs root: the process lacks {names}")
            }
            KernelError::Refused { step, why } => write!(f, "the kernel refused to {step}: {why}"),
            KernelError::File { path, why } => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for KernelError {}

pub(crate) fn refused(step: &'static str) -> impl Fn(libbpf_rs::Error) -> KernelError {
    move |why| KernelError::Refused { step, why: format!("{why:#}") }
}

/// Checks that this process may load programs, and with `network` that it may select connections.
/// Names what it lacks.
///
/// # Errors
/// If it has not the capabilities.
pub fn check_rights(network: bool) -> Result<(), KernelError> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|held| u64::from_str_radix(held.trim(), 16).ok()).unwrap_or(u64::MAX);
    let has = |number: u32| held & (1 << number) != 0;
    // capabilities(7). CAP_SYS_ADMIN has the first two.
    let needed = [("CAP_BPF", 39, true), ("CAP_PERFMON", 38, true), ("CAP_NET_ADMIN", 12, network)];
    let lacking = |(_, number, needed): &&(&str, u32, bool)| {
        *needed && !has(*number) && !(*number != 12 && has(21))
    };
    let names: Vec<&str> = needed.iter().filter(lacking).map(|(name, ..)| *name).collect();
    match names.as_slice() {
        [] => Ok(()),
        _ => Err(KernelError::Rights(names.join(", "))),
    }
}

/// Settings of the program.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Number of connections with a controller of the daemon, at most 4096.
    pub connections: u32,
    /// True if any user and any namespace may choose the controller.
    pub for_everybody: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { connections: SLOTS, for_everybody: false }
    }
}

/// The parts of `tcp_congestion_ops` that the running kernel has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Abilities {
    /// Number of arguments of `cong_control`: four from Linux 6.10 on, two before.
    control_arguments: usize,
    /// Operations that it has, of those that it may lack.
    optional: Vec<&'static str>,
}

/// Operations that a kernel may lack, with their place in the program's structure, bytes.
const OPTIONAL: [(&str, usize); 2] = [("min_tso_segs", 16), ("sndbuf_expand", 40)];

/// Place of `flags` in the program's structure, bytes.
const FLAGS: usize = 48;

impl Abilities {
    fn of_this_kernel() -> Result<Self, KernelError> {
        let lacks = |what: &str| KernelError::Lacks(what.to_owned());
        let btf = Btf::from_vmlinux()
            .map_err(|_| lacks("its types (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF)"))?;
        let ops: Struct<'_> = btf
            .type_by_name("tcp_congestion_ops")
            .ok_or_else(|| lacks("TCP congestion controllers (`tcp_congestion_ops`)"))?;
        if btf.type_by_name::<Struct<'_>>("bpf_struct_ops_tcp_congestion_ops").is_none() {
            return Err(lacks("controllers by BPF (CONFIG_BPF_JIT, Linux 5.6)"));
        }
        let member = |name: &str| ops.iter().find(|m| m.name.is_some_and(|n| n == name));
        let control = member("cong_control").ok_or_else(|| lacks("`cong_control` (Linux 4.9)"))?;
        let pointer: Option<Ptr<'_>> = btf.type_by_id(control.ty);
        let function = pointer.and_then(|p| FuncProto::try_from(p.referenced_type()).ok());
        let control_arguments = function.map_or(0, |function| function.iter().count());
        if !matches!(control_arguments, 2 | 4) {
            return Err(KernelError::Lacks(format!(
                "a `cong_control` that this version knows: it has {control_arguments} arguments"
            )));
        }
        let has = |name: &&str| member(name).is_some();
        let optional = OPTIONAL.iter().map(|(name, _)| *name).filter(has).collect();
        Ok(Abilities { control_arguments, optional })
    }
}

/// Counters of the program since it was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Connections that chose the controller.
    pub opened: u64,
    /// Connections that ended or chose another.
    pub closed: u64,
    /// Connections without a slot, which run NewReno.
    pub without_slot: u64,
    /// ACKs.
    pub acks: u64,
    /// ACKs at which a window of the daemon applied.
    pub driven: u64,
    /// ACKs at which NewReno moved the window.
    pub newreno: u64,
    /// Reports.
    pub reports: u64,
    /// Reports for which there was no room.
    pub dropped: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Connections that NewReno took over, since the daemon was silent.
    pub takeovers: u64,
}

impl Counters {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
        let mut next = || words.next();
        Some(Counters {
            opened: next()?,
            closed: next()?,
            without_slot: next()?,
            acks: next()?,
            driven: next()?,
            newreno: next()?,
            reports: next()?,
            dropped: next()?,
            timeouts: next()?,
            takeovers: next()?,
        })
    }
}

/// The program in the kernel. It stays there until [`Object::unload`], also when this process ends.
#[derive(Debug)]
pub struct Object {
    pins: PathBuf,
    maps: Vec<MapHandle>,
}

impl Object {
    /// Loads the program and pins it under this path of a file system of BPF.
    ///
    /// # Errors
    /// If the kernel lacks something or refuses it, or the path exists.
    pub fn load(pins: &Path, settings: &Settings) -> Result<Self, KernelError> {
        let abilities = Abilities::of_this_kernel()?;
        libbpf_rs::set_print(None);
        let mut open =
            ObjectBuilder::default().open_memory(PROGRAM).map_err(refused("open the program"))?;
        let name = match abilities.control_arguments {
            2 => "windward_before_6_10",
            _ => "windward",
        };
        choose(&mut open, name, &abilities, settings)?;
        let mut object = open.load().map_err(refused("load the program"))?;
        pin(&mut object, pins, &MAPS, name, || {
            let this = Object::adopt(pins)?;
            for slot in 0..settings.connections.min(SLOTS) {
                let slots = this.map("slots");
                slots
                    .update(&[], &slot.to_ne_bytes(), MapFlags::ANY)
                    .map_err(refused("fill slots"))?;
            }
            Ok(this)
        })
    }

    /// The program that was pinned under this path.
    ///
    /// # Errors
    /// If no program is pinned there, or one of another version is.
    pub fn adopt(pins: &Path) -> Result<Self, KernelError> {
        let map = |suffix: &&str| {
            MapHandle::from_pinned_path(place(pins, suffix)).map_err(refused("open a pinned map"))
        };
        let maps = MAPS.iter().map(map).collect::<Result<_, _>>()?;
        Ok(Object { pins: pins.to_owned(), maps })
    }

    /// True if a program is pinned under this path.
    pub fn is_loaded(pins: &Path) -> bool {
        place(pins, "link").exists()
    }

    /// Takes the program out of the kernel. Connections that have the controller keep NewReno until
    /// they end.
    ///
    /// # Errors
    /// If the path cannot be removed.
    pub fn unload(pins: &Path) -> Result<(), KernelError> {
        if let Ok(mut link) = Link::open(place(pins, "link")) {
            let _ = link.unpin();
        }
        fs::remove_dir_all(pins).map_err(|why| KernelError::File { path: pins.to_owned(), why })
    }

    /// Where it is pinned.
    pub fn pins(&self) -> &Path {
        &self.pins
    }

    /// Counters.
    ///
    /// # Errors
    /// If the kernel refuses to read them.
    pub fn counters(&self) -> Result<Counters, KernelError> {
        let found = self.map(".bss").lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let bytes = found.map_err(refused("read counters"))?;
        let counters = bytes.and_then(|bytes| Counters::read(&bytes));
        counters.ok_or_else(|| KernelError::Lacks("counters of this version".to_owned()))
    }

    /// Writes an answer.
    pub(crate) fn answer(&self, slot: u32, answer: &Answer) -> Result<(), KernelError> {
        let written =
            self.map("answers").update(&slot.to_ne_bytes(), &answer.bytes(), MapFlags::ANY);
        written.map_err(refused("write an answer"))
    }

    /// The ring of reports.
    pub(crate) fn events(&self) -> &MapHandle {
        self.map("events")
    }

    fn map(&self, name: &str) -> &MapHandle {
        let index = MAPS.iter().position(|known| *known == name).unwrap_or_default();
        &self.maps[index]
    }
}

/// Opens a program with these settings, which it has at the beginning of its constants.
pub(crate) fn open_with(
    program: &'static [u8],
    settings: &[u8],
) -> Result<OpenObject, KernelError> {
    let mut open =
        ObjectBuilder::default().open_memory(program).map_err(refused("open the program"))?;
    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().ends_with(".rodata")
            && let Some(initial) = map.initial_value_mut()
        {
            initial[..settings.len()].copy_from_slice(settings);
        }
    }
    Ok(open)
}

/// Makes a folder in a file system of BPF and pins these maps of a program there. Then calls
/// `prepare`, registers the controller of this name and pins that too. After an error nothing
/// stays.
pub(crate) fn pin<T>(
    object: &mut libbpf_rs::Object,
    pins: &Path,
    maps: &[&str],
    controller: &str,
    prepare: impl FnOnce() -> Result<T, KernelError>,
) -> Result<T, KernelError> {
    let lacks = |name: &str| KernelError::Lacks(format!("the map {name} of this version"));
    fs::create_dir(pins).map_err(|why| KernelError::File { path: pins.to_owned(), why })?;
    let pinned = (|| {
        for suffix in maps {
            let found =
                object.maps_mut().find(|map| map.name().to_string_lossy().ends_with(suffix));
            let mut map = found.ok_or_else(|| lacks(suffix))?;
            map.pin(place(pins, suffix)).map_err(refused("pin a map"))?;
        }
        let this = prepare()?;
        let ops = object.maps_mut().find(|map| map.name() == controller);
        let mut ops = ops.ok_or_else(|| lacks(controller))?;
        let mut link = ops.attach_struct_ops().map_err(refused("register the controller"))?;
        link.pin(place(pins, "link")).map_err(refused("pin the controller"))?;
        Ok(this)
    })();
    if pinned.is_err() {
        let _ = fs::remove_dir_all(pins);
    }
    pinned
}

/// The file of a pin. Names in a file system of BPF have no dots.
pub(crate) fn place(pins: &Path, name: &str) -> PathBuf {
    pins.join(name.trim_start_matches('.'))
}

/// Leaves the variant of the program that this kernel runs, with what it has.
fn choose(
    open: &mut OpenObject,
    name: &str,
    abilities: &Abilities,
    settings: &Settings,
) -> Result<(), KernelError> {
    for mut map in open.maps_mut() {
        let of_map = map.name().to_owned();
        if !of_map.to_string_lossy().starts_with("windward") {
            continue;
        }
        if of_map != name {
            map.set_autocreate(false).map_err(refused("leave a variant out"))?;
            continue;
        }
        let Some(ops) = map.initial_value_mut() else { continue };
        for (_, at) in OPTIONAL.iter().filter(|(known, _)| !abilities.optional.contains(known)) {
            ops[*at..at + 8].fill(0);
        }
        let flags = if settings.for_everybody { NON_RESTRICTED } else { 0 };
        ops[FLAGS..FLAGS + 4].copy_from_slice(&flags.to_ne_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_in_the_order_of_the_program() {
        let words: Vec<u8> = (1_u64..=10).flat_map(u64::to_ne_bytes).collect();
        let counters = Counters::read(&words).unwrap();
        assert_eq!((counters.opened, counters.dropped, counters.takeovers), (1, 8, 10));
        assert_eq!(Counters::read(&words[..79]), None);
    }
}
