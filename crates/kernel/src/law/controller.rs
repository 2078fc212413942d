//! The program that computes a law, in the kernel.

use std::path::{Path, PathBuf};

use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, ObjectBuilder};

use super::{Law, POINT};
use crate::object::{KernelError, NON_RESTRICTED, pin, place, refused};

/// The program, compiled by `bpf/build.sh`.
const PROGRAM: &[u8] = include_bytes!("../../bpf/law.bpf.o");

/// Place of `flags` in the program's structure, bytes.
const FLAGS: usize = 24;

/// Maps that stay in the file system of BPF while the program is loaded.
const MAPS: [&str; 2] = ["laws", ".bss"];

/// Counters of the program since it was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LawCounters {
    /// Connections that chose the controller.
    pub connections: u64,
    /// ACKs at which the window could grow.
    pub acks: u64,
    /// Losses, marks and timeouts at which `on_loss` was asked.
    pub losses: u64,
    /// Invalid results of `on_ack` and of `on_loss`.
    pub invalid: [u64; 2],
    /// The latest of them, packets.
    pub latest: [f64; 2],
}

impl LawCounters {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |at: usize| words.get(at).map(|word| u64::from_ne_bytes(*word));
        let value = |at: usize| Some(float(word(at)?.cast_signed()));
        Some(LawCounters {
            connections: word(0)?,
            acks: word(1)?,
            losses: word(2)?,
            invalid: [word(3)?, word(4)?],
            latest: [value(5)?, value(6)?],
        })
    }
}

/// The value of a number of the program.
fn float(fixed: i64) -> f64 {
    match fixed {
        i64::MIN => f64::NAN,
        i64::MAX => f64::INFINITY,
        _ if fixed == -i64::MAX => f64::NEG_INFINITY,
        fixed => fixed as f64 / f64::from(1_u32 << POINT),
    }
}

/// The program in the kernel. It needs no other one, and stays until [`crate::Object::unload`],
/// also when this process ends.
#[derive(Debug)]
pub struct LawController {
    pins: PathBuf,
    laws: MapHandle,
    counters: MapHandle,
}

impl LawController {
    /// Name of the controller in the kernel.
    pub const NAME: &str = "windward_law";

    /// Loads the program with this law and pins it under this path of a file system of BPF.
    /// `for_everybody` is true if any user and any namespace may choose the controller.
    ///
    /// # Errors
    /// If the kernel lacks something or refuses it, or the path exists.
    pub fn load(pins: &Path, law: &Law, for_everybody: bool) -> Result<Self, KernelError> {
        let mut open =
            ObjectBuilder::default().open_memory(PROGRAM).map_err(refused("open the program"))?;
        for mut map in open.maps_mut().filter(|map| map.name() == Self::NAME) {
            let Some(ops) = map.initial_value_mut() else { continue };
            let flags = if for_everybody { NON_RESTRICTED } else { 0 };
            ops[FLAGS..FLAGS + 4].copy_from_slice(&flags.to_ne_bytes());
        }
        for mut program in open.progs_mut().filter(|program| program.name() == "evaluate") {
            program.set_autoload(false);
        }
        let mut object = open.load().map_err(refused("load the program"))?;
        pin(&mut object, pins, &MAPS, Self::NAME, || {
            let this = Self::adopt(pins)?;
            this.replace(law)?;
            Ok(this)
        })
    }

    /// The program that was pinned under this path.
    ///
    /// # Errors
    /// If no program is pinned there.
    pub fn adopt(pins: &Path) -> Result<Self, KernelError> {
        let map = |name: &str| {
            MapHandle::from_pinned_path(place(pins, name)).map_err(refused("open a pinned map"))
        };
        Ok(LawController { pins: pins.to_owned(), laws: map(MAPS[0])?, counters: map(MAPS[1])? })
    }

    /// True if a program that computes a law is pinned under this path.
    pub fn is_loaded(pins: &Path) -> bool {
        place(pins, "link").exists() && place(pins, MAPS[0]).exists()
    }

    /// Replaces the law, for connections in progress too. Each ACK sees the old law or the new one.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn replace(&self, law: &Law) -> Result<(), KernelError> {
        replace(&self.laws, law)
    }

    /// Where it is pinned.
    pub fn pins(&self) -> &Path {
        &self.pins
    }

    /// Counters.
    ///
    /// # Errors
    /// If the kernel refuses to read them.
    pub fn counters(&self) -> Result<LawCounters, KernelError> {
        let found = self.counters.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let bytes = found.map_err(refused("read counters"))?;
        let counters = bytes.and_then(|bytes| LawCounters::read(&bytes));
        counters.ok_or_else(|| KernelError::Lacks("counters of this version".to_owned()))
    }
}

/// Writes a law into a map of its own, and this one's place into the map of laws.
fn replace(laws: &impl MapCore, law: &Law) -> Result<(), KernelError> {
    use std::os::fd::{AsFd, AsRawFd};
    let zero = 0_u32.to_ne_bytes();
    let bytes = law.bytes();
    let options =
        bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as _, ..Default::default() };
    let size = bytes.len() as u32;
    let map = MapHandle::create(MapType::Array, Some("law"), 4, size, 1, &options)
        .map_err(refused("make a map for the law"))?;
    map.update(&zero, &bytes, MapFlags::ANY).map_err(refused("write the law"))?;
    let handle = map.as_fd().as_raw_fd().to_ne_bytes();
    laws.update(&zero, &handle, MapFlags::ANY).map_err(refused("take the law"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use libbpf_rs::{ErrorKind, Object, ProgramInput};
    use windward_core::endpoint::window::Expressions;

    use super::super::LEAVES;
    use super::super::tests::law;
    use super::*;

    /// The program without its controller; `None` where it cannot be had. Standard error has the
    /// reason.
    fn program() -> Option<Object> {
        let mut open = ObjectBuilder::default().open_memory(PROGRAM).unwrap();
        for mut program in open.progs_mut() {
            let is_it = program.name() == "evaluate";
            program.set_autoload(is_it);
        }
        for mut map in open.maps_mut().filter(|map| map.name() == LawController::NAME) {
            map.set_autocreate(false).unwrap();
        }
        match open.load() {
            Ok(object) => Some(object),
            Err(why) if why.kind() != ErrorKind::PermissionDenied && has_needs() => {
                panic!("{why:#}")
            }
            Err(why) => {
                eprintln!("skipped: {why:#}");
                None
            }
        }
    }

    /// True if the kernel has what laws need: Linux 6.4 with its types.
    fn has_needs() -> bool {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release.split(['.', '-']).map_while(|word| word.parse::<u32>().ok());
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        version >= (6, 4) && Path::new("/sys/kernel/btf/vmlinux").exists()
    }

    /// Values of variables by their names.
    type Values<'a> = &'a [(&'a str, f64)];

    /// The value of `on_ack`, or of `on_loss`, in the kernel.
    fn in_kernel(object: &Object, which: u64, law: &Law, values: Values<'_>) -> f64 {
        let laws = object.maps().find(|map| map.name() == "laws").unwrap();
        replace(&laws, law).unwrap();
        let mut question = vec![0; 18 * 8];
        for (name, value) in values {
            let leaf = LEAVES.iter().find(|(known, _)| known == name).unwrap().1 as usize;
            let fixed = (value * f64::from(1_u32 << POINT)).round() as i64;
            question[leaf * 8..leaf * 8 + 8].copy_from_slice(&fixed.to_ne_bytes());
        }
        question[16 * 8..17 * 8].copy_from_slice(&which.to_ne_bytes());
        let program = object.progs_mut().find(|program| program.name() == "evaluate").unwrap();
        let input = ProgramInput { context_in: Some(&mut question), ..Default::default() };
        assert_eq!(program.test_run(input).unwrap().return_value, 0);
        float(i64::from_ne_bytes(question[17 * 8..].try_into().unwrap()))
    }

    /// The value in core: the expression with numbers in the place of variables.
    fn in_core(text: &str, values: Values<'_>) -> f64 {
        use windward_core::expression::{Cursor, Expression, Leaf};
        #[derive(Clone)]
        enum Term {
            Variable(String),
            If(Vec<Expression<Term>>),
        }
        impl Leaf for Term {
            fn parse(name: &str, cursor: &mut Cursor<'_>) -> Result<Self, String> {
                match name {
                    "if" => cursor.arguments().map(Term::If),
                    name => Ok(Term::Variable(name.to_owned())),
                }
            }
        }
        fn value(expression: &Expression<Term>, values: Values<'_>) -> f64 {
            expression.evaluate(&|term| match term {
                Term::Variable(name) => values.iter().find(|(known, _)| known == name).unwrap().1,
                Term::If(all) => match value(&all[0], values) == 0.0 {
                    true => value(&all[2], values),
                    false => value(&all[1], values),
                },
            })
        }
        value(&Expression::parse(text).unwrap(), values)
    }

    #[test]
    fn values_are_those_of_core() {
        let Some(object) = program() else { return };
        let values: Vec<_> = [10.0, 30_000.25, 7e5, 1.0]
            .into_iter()
            .flat_map(|cwnd| [1.0, 7.0].map(|growth| (cwnd, growth)))
            .flat_map(|(cwnd, growth)| [0.000_125, 0.3].map(|rtt| (cwnd, growth, rtt)))
            .collect();
        for text in [
            "cwnd + growth / cwnd",
            "0.7 * cwnd",
            "cwnd - 0.125 * growth",
            "-cwnd",
            "abs(growth - cwnd)",
            "cwnd * srtt + growth",
            "cwnd / srtt",
            "cwnd * cwnd / 1024",
            "-3 * growth / -7",
            "(0 - cwnd) / 3 * growth",
            "mean(cwnd, growth, 4)",
            "min(cwnd, growth, 5)",
            "max(cwnd, growth, 5)",
            "at_least(growth, 7)",
            "if(at_least(srtt, 0.1), cwnd / 2, cwnd)",
            "if(0, growth / 0, 3)",
            "cwnd * (1 - (srtt - 0.0001) / srtt)",
            "cwnd * cwnd / (growth * 3)",
            // No finite value.
            "cwnd / 0",
            "-cwnd / 0",
            "(cwnd - cwnd) / 0",
            "1 / 0 - 1 / 0",
            "0 * (1 / 0)",
            "growth / (1 / 0)",
            "min(3, 0 / 0)",
            "max(0 / 0, 3)",
            "at_least(0 / 0, 1)",
            "if(0 / 0, 1, 2)",
            "min(1 / 0, cwnd)",
            "-1 / 0 + cwnd",
            "abs(-1 / 0)",
        ] {
            let compiled = law("cwnd", text).unwrap();
            for (cwnd, growth, srtt) in &values {
                let values = [("cwnd", *cwnd), ("growth", *growth), ("srtt", *srtt)];
                let (kernel, core) =
                    (in_kernel(&object, 1, &compiled, &values), in_core(text, &values));
                // Steps of 2^-24, which the smallest divisor, 0.000125, makes eight thousand times
                // as large; and a relative error of 2^-13 by its own fixed point.
                let tolerance = 5e-4 + core.abs() * 2_f64.powi(-11);
                let same = kernel == core
                    || kernel.is_nan() && core.is_nan()
                    || (kernel - core).abs() <= tolerance;
                assert!(same, "{text} with {values:?}: {kernel} instead of {core}");
            }
        }
    }

    #[test]
    fn results_are_exact_where_fixed_point_is() {
        let Some(object) = program() else { return };
        let value = |text: &str| in_kernel(&object, 0, &law(text, "1").unwrap(), &[]);
        assert_eq!(value("7 / 2"), 3.5);
        assert_eq!(value("-7 / 2"), -3.5);
        assert_eq!(value("1.5 * -2.5"), -3.75);
        // 2^38 / 2 and 2^38 / 2^-10 x 2^-20: the long division, and a product of 128 bits.
        assert_eq!(value("274877906944 / 2"), 137_438_953_472.0);
        assert_eq!(value("274877906944 / 1024 * 2048"), f64::INFINITY);
        assert_eq!(value("1000001 / 4096 * 4096"), 1_000_001.0);
        assert_eq!(value("274877906945 / 4"), 68_719_476_736.25);
        // A third has 24 places after the point: 5592405 of 2^24.
        assert_eq!(value("1 / 3"), 5_592_405.0 / 16_777_216.0);
        assert_eq!(value("100000 / 3 - 33333"), 5_592_405.0 / 16_777_216.0);
    }

    #[test]
    fn what_is_out_of_range_is_infinite() {
        let Some(object) = program() else { return };
        let value = |text: &str| in_kernel(&object, 0, &law(text, "1").unwrap(), &[]);
        let large = "500000000000";
        assert_eq!(value(&format!("{large} + {large}")), f64::INFINITY);
        assert_eq!(value(&format!("-{large} - {large}")), f64::NEG_INFINITY);
        assert_eq!(value(&format!("{large} * {large}")), f64::INFINITY);
        assert_eq!(value(&format!("{large} * -2")), f64::NEG_INFINITY);
        assert_eq!(value(&format!("{large} / 0.25")), f64::INFINITY);
        assert_eq!(value(&format!("min({large} * {large}, 3)")), 3.0);
    }

    #[test]
    fn the_largest_law_fits() {
        let Some(object) = program() else { return };
        // 32 variables and 31 sums; 16 values at once.
        let long = vec!["growth"; 32].join(" + ");
        let deep = "growth + (".repeat(15) + "1" + &")".repeat(15);
        let values = [("growth", 2.0)];
        assert_eq!(in_kernel(&object, 0, &law(&long, "1").unwrap(), &values), 64.0);
        assert_eq!(in_kernel(&object, 0, &law(&deep, "1").unwrap(), &values), 31.0);
        // The law of the other expression does not matter.
        let both = law(&long, "growth / 2").unwrap();
        assert_eq!(in_kernel(&object, 1, &both, &values), 1.0);
        let usual = Law::compile(Expressions::default().compile().unwrap()).unwrap();
        assert_eq!(in_kernel(&object, 0, &usual, &[("cwnd", 8.0), ("growth", 1.0)]), 8.125);
    }

    #[test]
    fn counters_are_in_the_order_of_the_program() {
        let words: Vec<u8> = [1, 2, 3, 4, 5, 3 << 23, i64::MIN.cast_unsigned()]
            .into_iter()
            .flat_map(u64::to_ne_bytes)
            .collect();
        let counters = LawCounters::read(&words).unwrap();
        assert_eq!((counters.connections, counters.losses, counters.invalid), (1, 3, [4, 5]));
        assert_eq!(counters.latest[0], 1.5);
        assert!(counters.latest[1].is_nan());
        assert_eq!(LawCounters::read(&words[..55]), None);
    }
}
