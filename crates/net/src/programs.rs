//! Table of programs to be measured, in TOML: the commands that start them, and the place of the
//! goodput in their output.
//!
//! ```
//! use windward_net::programs::Programs;
//!
//! let table = Programs::parse(
//!     "mine.toml",
//!     r#"
//!     [[programs]]
//!     name = "mine"
//!     needs = ["mine-server", "mine-client"]
//!     server = "mine-server"
//!     client = "mine-client outside {total}"
//!     goodput = { regex = "received ([0-9.]+) Mbit/s", unit = 1e6 }
//!     "#,
//! )?;
//! let mine = table.find("mine").expect("it is there");
//! assert_eq!(mine.goodput_bps("received 9.5 Mbit/s\n"), Ok(Some(9.5e6)));
//! # Ok::<(), String>(())
//! ```

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use regex_lite::Regex;
use windward_core::protocols;
use windward_sim::keys;
use windward_sim::strict_toml::{
    Document, Field, FileError, KeySource, Result as FileResult, Section, TomlTable, TomlType,
    json_schema, readers,
};

use crate::perf::{Plan, Test};
use crate::trial;

/// The table that comes with Windward: `programs.toml` of this crate.
pub const BUILTIN: &str = include_str!("../programs.toml");

/// A table of programs.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// The entry by which rows of the table of protocols are measured; `{row}` stands for the name.
    rows: Option<Entry>,
    /// Programs with a name of their own; in that of a program for each row, `{row}` stands for it.
    programs: Vec<Entry>,
    /// Puts rows into the kernel, if this build can.
    kernel: Option<Kernel>,
}

/// Calls a function while the row of that name is the congestion control `windward` of the kernel,
/// which every network namespace may choose. One row can be there at a time.
///
/// # Errors
/// The reason, as text, if it cannot be put there or is taken out before the function has returned.
pub type Kernel = fn(row: &str, run: &mut (dyn FnMut() + Send)) -> Result<(), String>;

/// The congestion control of programs with a row of Windward.
const WINDWARD: &str = "windward";

/// Stands for the name of a row.
const ROW: &str = "{row}";

/// A row that can be in the kernel wherever another one can.
const ANY_ROW: &str = "newreno";

keys! {
    /// Keys of the file.
    struct FileKeys<'a> in "programs" {
        rows: Option<Section<'a>> = readers::table(&[Entry::KEYS]), absent,
            "entry that measures rows of the table of protocols; {row} stands for the name of the row";
        programs: Vec<Section<'a>> = readers::tables(&[Entry::KEYS], name_of), empty,
            "programs with a name of their own; a name with {row} is one for each row";
    }
}

/// The declarations of all keys.
const KEYS: &[KeySource] = &[FileKeys::KEYS];

fn name_of(table: &TomlTable) -> Option<String> {
    table.text("name").map(str::to_owned)
}

keys! {
    /// A program.
    #[derive(PartialEq)]
    pub struct Entry in "program" {
        name: String = readers::string(), needed "name = \"mine\"",
            "Name. With `{row}` in it, the entry is one for each row of the table of protocols, and \
             `{row}` in the other keys stands for that row.";
        about: String = readers::string(), empty, "Description in one line.";
        needs: Vec<String> = readers::strings(), empty,
            "Commands that it needs; if one of them is not in PATH, the program is skipped.";
        congestion_control: Option<String> = readers::string(), absent,
            "Congestion control of the kernel with which it sends, chosen before it starts; it is \
             skipped if the kernel lacks it.";
        kernel_row: Option<String> = readers::string(), absent,
            "Row of the table of protocols with which the kernel sends, in place of \
             `congestion_control`: it is in the kernel during the runs that need it.";
        server: String = readers::string(), needed "server = \"mine-server\"",
            "Shell command of the sender.";
        client: String = readers::string(), needed "client = \"mine-client outside {total}\"",
            "Shell command of the receiver. `{total}` is its duration in seconds, `{warmup}` and `{time}` \
             its unmeasured and measured parts. `{windward}` is this program, `{endpoint}` the \
             parameters of endpoints, as `--set KEY=VALUE`; `{folder}` is a new folder for both ends, \
             which is removed after the run; `outside` is the host of the server.";
        endpoint: BTreeMap<String, String> = readers::map_of_strings(), empty,
            "Keys of `[endpoint]` of scenario files for `{endpoint}` and for the twin; `{mtu}` is the \
             size of a full packet of the port.";
        goodput: Option<Goodput> = readers::custom(goodput_kind, goodput), absent,
            "The place of the goodput in the output of the client; without it, the bytes that the \
             port delivered count.";
        twin: Option<Twin> = readers::custom(twin_kind, twin), absent,
            "The flow that is simulated beside it.";
    }
}

fn goodput_kind() -> TomlType {
    TomlType::table(&[Goodput::KEYS])
}

fn twin_kind() -> TomlType {
    TomlType::table(&[Twin::KEYS])
}

fn twin(field: &Field<'_>) -> FileResult<Twin> {
    Twin::read(&field.section()?)
}

keys! {
    /// The place of the goodput in the standard output of a client.
    #[derive(PartialEq)]
    pub struct Goodput in "goodput" {
        json: Option<String> = readers::string(), absent,
            "A path in JSON: names and, for lists, numbers, with dots between them.";
        regex: Option<String> = readers::string(), absent,
            "A regular expression whose first group is the number; the last match counts.";
        unit: f64 = readers::above_zero(f64::MAX), or 1.0,
            "Bits per second that the number is multiplied by.";
        packet: Option<[u32; 2]> = readers::custom(packet_kind, packet), absent,
            "Bytes that the program counts for a full packet, and the size of that packet in IP: \
             the number is multiplied by their ratio.";
    }
}

fn packet_kind() -> TomlType {
    TomlType::List(Box::new((readers::small(1..=u32::MAX).kind)()))
}

/// Two sizes in bytes.
fn packet(field: &Field<'_>) -> FileResult<[u32; 2]> {
    match field.items()?.as_slice() {
        [own, ip] => Ok([own.small(1..=u32::MAX)?, ip.small(1..=u32::MAX)?]),
        _ => Err(field.expected("two sizes").with_help("write for instance [1448, 1500]")),
    }
}

fn goodput(field: &Field<'_>) -> FileResult<Goodput> {
    let section = field.section()?;
    let goodput = Goodput::read(&section)?;
    match (&goodput.json, &goodput.regex) {
        (Some(_), None) => {}
        (None, Some(text)) => {
            let groups = Regex::new(text).map(|regex| regex.captures_len());
            match groups {
                Ok(0 | 1) => {
                    return Err(section.error_at("regex", "needs a group around the number"));
                }
                Ok(_) => {}
                Err(wrong) => return Err(section.error_at("regex", wrong)),
            }
        }
        _ => return Err(section.error("give either `json` or `regex`")),
    }
    Ok(goodput)
}

keys! {
    /// The simulated counterpart of a program. Its defaults are those of a flow between hosts: see
    /// [`Test`].
    #[derive(PartialEq)]
    pub struct Twin in "twin" {
        protocol: String = readers::string(), needed "protocol = \"cubic\"",
            "A row of the table of protocols.";
        set: BTreeMap<String, String> = readers::map_of_strings(), empty,
            "Keys of `[endpoint]` of scenario files.";
    }
}

impl Twin {
    /// The protocol and its endpoints; `more` keys are set after its own.
    ///
    /// # Errors
    /// The error in the protocol or a key, as text.
    pub fn plan(&self, more: &[(String, String)]) -> Result<Plan, String> {
        let own = self.set.iter().map(|(key, value)| (key.clone(), value.clone()));
        let parameters = own.chain(more.iter().cloned()).collect();
        Test { parameters, ..Test::of(&self.protocol) }.plan()
    }
}

impl Programs {
    /// Reads a table; `name` stands for it in errors.
    ///
    /// # Errors
    /// The error and its place, as text.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        Self::read(name, text).map_err(|error| error.to_string())
    }

    fn read(name: &str, text: &str) -> Result<Self, FileError> {
        let document = Document::parse(name, text)?;
        let keys = FileKeys::read(&document.root(KEYS)?)?;
        let mut programs: Vec<Entry> = Vec::new();
        for table in &keys.programs {
            let entry = entry(table)?;
            if programs.iter().any(|other| other.name == entry.name) {
                let message = format!("two programs are called `{}`", entry.name);
                return Err(table.error(message));
            }
            programs.push(entry);
        }
        let rows = keys.rows.as_ref().map(entry).transpose()?;
        Ok(Programs { rows, programs, kernel: None })
    }

    /// A JSON Schema of the table, for editors.
    pub fn json_schema() -> serde_json::Value {
        json_schema("Programs that windward measures", KEYS)
    }

    /// Adds the programs of another table, which take precedence.
    #[must_use]
    pub fn under(self, mut other: Programs) -> Self {
        let own = self.programs.into_iter();
        let more = own.filter(|own| !other.programs.iter().any(|entry| entry.name == own.name));
        let more: Vec<Entry> = more.collect();
        other.programs.extend(more);
        let (rows, kernel) = (other.rows.or(self.rows), other.kernel.or(self.kernel));
        Programs { rows, programs: other.programs, kernel }
    }

    /// Lets programs send with rows in the kernel.
    #[must_use]
    pub fn with_kernel(self, kernel: Kernel) -> Self {
        Programs { kernel: Some(kernel), ..self }
    }

    /// Puts rows into the kernel, if this build can.
    pub(crate) fn kernel(&self) -> Option<Kernel> {
        self.kernel
    }

    /// All programs with a name of their own.
    pub fn entries(&self) -> &[Entry] {
        &self.programs
    }

    /// The program of that name, or the entry for the row of protocols of that name.
    pub fn find(&self, name: &str) -> Option<Entry> {
        let own = self.programs.iter().find(|entry| entry.name == name && !entry.is_for_rows());
        own.cloned()
            .or_else(|| self.programs.iter().find_map(|entry| entry.named(name)))
            .or_else(|| Some(self.rows.as_ref()?.of_row(protocols::find(name)?.name)))
    }

    /// Reason why a program cannot run here; `None` if it can. A row of Windward is put into the
    /// kernel to find out.
    pub fn missing(&self, entry: &Entry) -> Option<String> {
        entry.lacks().or_else(|| {
            let row = entry.kernel_row.as_ref()?.replace(ROW, ANY_ROW);
            match self.kernel {
                Some(kernel) => kernel(&row, &mut || ()).err(),
                None => {
                    let why =
                        "this build cannot put rows into the kernel: it has no feature `kernel`";
                    Some(why.to_owned())
                }
            }
        })
    }
}

fn entry(table: &Section<'_>) -> FileResult<Entry> {
    let entry = Entry::read(table)?;
    if entry.name.trim().is_empty() || entry.name.contains(char::is_control) {
        return Err(table.error_at("name", "a program has a name, without control characters"));
    }
    if !entry.endpoint.is_empty() && !entry.takes_endpoint() {
        return Err(table.error_at("endpoint", "neither server nor client has {endpoint}"));
    }
    if entry.kernel_row.is_some() && entry.congestion_control.is_some() {
        return Err(table.error_at("kernel_row", "either this or congestion_control"));
    }
    Ok(entry)
}

/// The words of a run in the commands of a program, each ready for a shell.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    /// This program.
    pub windward: &'a str,
    /// The parameters of endpoints.
    pub endpoint: &'a str,
    /// A folder for both ends.
    pub folder: &'a str,
}

impl Entry {
    /// True if it stands for a program for each row.
    pub(crate) fn is_for_rows(&self) -> bool {
        self.name.contains(ROW)
    }

    /// The program of that name, if this is one for each row.
    fn named(&self, name: &str) -> Option<Entry> {
        let (before, after) = self.name.split_once(ROW)?;
        let row = name.strip_prefix(before)?.strip_suffix(after)?;
        Some(self.of_row(protocols::find(row)?.name))
    }

    /// Congestion control of the kernel with which it sends.
    pub(crate) fn control(&self) -> Option<&str> {
        self.kernel_row.as_ref().map_or(self.congestion_control.as_deref(), |_| Some(WINDWARD))
    }

    /// The same for a row of the table of protocols.
    fn of_row(&self, row: &str) -> Entry {
        let with = |text: &str| text.replace(ROW, row);
        let twin = self.twin.as_ref();
        Entry {
            name: with(&self.name),
            about: with(&self.about),
            kernel_row: self.kernel_row.as_deref().map(with),
            server: with(&self.server),
            client: with(&self.client),
            twin: twin.map(|twin| Twin { protocol: with(&twin.protocol), ..twin.clone() }),
            ..self.clone()
        }
    }

    fn takes_endpoint(&self) -> bool {
        [&self.server, &self.client].into_iter().any(|command| command.contains("{endpoint}"))
    }

    /// The parameters of its endpoints, and of its [twin](Entry::twin), over a link with that MTU:
    /// its own keys, and `more`, which override them. Empty if its commands take none.
    pub fn endpoint(&self, mtu: u32, more: &[(String, String)]) -> Vec<(String, String)> {
        if !self.takes_endpoint() {
            return Vec::new();
        }
        let own = self.endpoint.iter().filter(|(key, _)| !more.iter().any(|(k, _)| k == *key));
        let own = own.map(|(key, value)| (key.clone(), value.replace("{mtu}", &mtu.to_string())));
        own.chain(more.iter().cloned()).collect()
    }

    /// The command or the congestion control that it needs and that is not here.
    fn lacks(&self) -> Option<String> {
        let path = env::var_os("PATH").unwrap_or_default();
        let is_there = |name: &str| {
            name.contains('/') && is_executable(Path::new(name))
                || env::split_paths(&path).any(|folder| is_executable(&folder.join(name)))
        };
        if let Some(command) = self.needs.iter().find(|command| !is_there(command)) {
            return Some(format!("{command} is not installed"));
        }
        let control = self.congestion_control.as_ref()?;
        match trial::kernel_controls() {
            Ok(known) if known.contains(control) => None,
            Ok(_) => Some(format!("the kernel has no {control}: modprobe tcp_{control}")),
            Err(error) => {
                Some(format!("cannot read the congestion controls of the kernel: {error}"))
            }
        }
    }

    /// Commands of a run with this warm-up and measured time in seconds.
    pub fn program(&self, warmup: u32, time: u32, words: &Words<'_>) -> trial::Program {
        let with = |text: &str| {
            text.replace("{total}", &(warmup + time).to_string())
                .replace("{warmup}", &warmup.to_string())
                .replace("{time}", &time.to_string())
                .replace("{windward}", words.windward)
                .replace("{endpoint}", words.endpoint)
                .replace("{folder}", words.folder)
        };
        trial::Program {
            server: with(&self.server),
            client: with(&self.client),
            congestion_control: self.control().map(str::to_owned),
            says: self.is_asked(warmup),
        }
    }

    /// True if the goodput is read from its output. False if that would include the warm-up.
    pub fn is_asked(&self, warmup: u32) -> bool {
        self.goodput.is_some() && (warmup == 0 || self.client.contains("{warmup}"))
    }

    /// The goodput that it prints, bits per second of IP packets; `None` if its output is not read.
    ///
    /// # Errors
    /// The missing value, as text.
    pub fn goodput_bps(&self, output: &str) -> Result<Option<f64>, String> {
        let Some(goodput) = &self.goodput else { return Ok(None) };
        let number = match (&goodput.json, &goodput.regex) {
            (Some(path), _) => in_json(output, path)?,
            (_, Some(text)) => in_text(output, text)?,
            _ => return Ok(None),
        };
        let ratio = goodput.packet.map_or(1.0, |[own, ip]| f64::from(ip) / f64::from(own));
        Ok(Some(number * goodput.unit * ratio))
    }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn in_json(output: &str, path: &str) -> Result<f64, String> {
    let value: serde_json::Value =
        serde_json::from_str(output).map_err(|error| format!("it printed no JSON: {error}"))?;
    let place = path.split('.').try_fold(&value, |value, key| match key.parse::<usize>() {
        Ok(number) if value.is_array() => value.get(number),
        _ => value.get(key),
    });
    place.and_then(serde_json::Value::as_f64).ok_or_else(|| match value.get("error") {
        Some(error) => format!("it printed no number at {path}, but {error}"),
        None => format!("it printed no number at {path}"),
    })
}

fn in_text(output: &str, regex: &str) -> Result<f64, String> {
    let compiled = Regex::new(regex).map_err(|error| error.to_string())?;
    let last = compiled.captures_iter(output).last().and_then(|found| found.get(1));
    let number = last.and_then(|number| number.as_str().parse().ok());
    number.ok_or_else(|| format!("it printed no number that matches {regex}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_that_comes_along_is_right() {
        let table = Programs::parse("programs.toml", BUILTIN).unwrap();
        for row in protocols::PROTOCOLS {
            let entry = table.find(row.name).expect(row.name);
            assert_eq!(entry.name, row.name);
            assert!(entry.client.contains(row.name) && !entry.client.contains("{row}"));
            // The same conditions as the kernel's TCP has, and as its twin has.
            let endpoint = entry.endpoint(1500, &[]);
            let of = |key: &str| endpoint.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
            assert_eq!((of("packet_size"), of("preset")), (Some("1500"), Some("linux")));
            let parameters = endpoint.clone();
            let plan = Test { parameters, ..Test::of(row.name) }.plan().expect(row.name);
            let twin = entry.twin.unwrap();
            assert_eq!(twin.protocol, row.name);
            let twin = twin.plan(&endpoint).expect(row.name);
            assert_eq!((plan.config.packet_size, twin.config.packet_size), (1500, 1500));
            assert_eq!([&plan, &twin].map(|plan| plan.config.initial_window), [10.0; 2]);
            let [own, of_twin] = [&plan, &twin].map(|plan| format!("{:?}", plan.protocol));
            assert_eq!(own, of_twin);
        }
        for entry in table.entries() {
            let entry = &entry.of_row(ANY_ROW);
            assert!(protocols::find(&entry.name).is_none(), "{}", entry.name);
            if let Some(twin) = &entry.twin {
                assert!(protocols::find(&twin.protocol).is_some(), "{}", entry.name);
            }
        }
        assert_eq!(table.find("no-such-program"), None);
    }

    #[test]
    fn goodput_is_found_where_the_table_says() {
        let table = |goodput: &str| {
            let text = format!(
                "[[programs]]\nname = \"a\"\nserver = \"s\"\nclient = \"c\"\ngoodput = {goodput}"
            );
            Programs::parse("t", &text).map(|table| table.entries()[0].clone())
        };
        let json = table("{ json = \"end.flows.1.bps\", packet = [1448, 1500] }").unwrap();
        let said = json.goodput_bps("{\"end\": {\"flows\": [0, {\"bps\": 1448}]}}");
        assert_eq!(said, Ok(Some(1500.0)));
        assert!(json.goodput_bps("{\"error\": \"refused\"}").unwrap_err().contains("refused"));
        assert!(json.goodput_bps("nothing").unwrap_err().contains("no JSON"));
        assert!(json.is_asked(0) && !json.is_asked(2));
        let regex = table("{ regex = '= ([0-9.]+) kB/s', unit = 8000 }").unwrap();
        assert_eq!(regex.goodput_bps("= 1 kB/s\n= 2.5 kB/s\n"), Ok(Some(20_000.0)));
        assert!(regex.goodput_bps("= fast").is_err());
        for (wrong, word) in [
            ("{}", "either"),
            ("{ json = \"a\", regex = '(b)' }", "either"),
            ("{ regex = 'b' }", "group"),
            ("{ regex = '(' }", "regex"),
            ("{ json = \"a\", unit = 0 }", "unit"),
            ("{ json = \"a\", packet = [0, 1] }", "packet"),
            ("{ jsn = \"a\" }", "jsn"),
        ] {
            let error = table(wrong).unwrap_err();
            assert!(error.starts_with("t:5: ") && error.contains(word), "{wrong}: {error}");
        }
    }

    #[test]
    fn words_in_braces_stand_for_what_is_known_later() {
        let text = "[[programs]]\nname = \"a\"\nneeds = [\"/no/such/program\"]\nserver = \"{windward} s\"\n\
                    client = \"c {warmup} {time} {total} {endpoint} {folder}/in\"";
        let table = Programs::parse("t", text).unwrap();
        let entry = &table.entries()[0];
        let words = Words { windward: "'w'", endpoint: "--set a=1", folder: "'/a b'" };
        let program = entry.program(2, 10, &words);
        let client = "c 2 10 12 --set a=1 '/a b'/in";
        assert_eq!((&*program.server, &*program.client), ("'w' s", client));
        assert!(!program.says && !entry.is_asked(0));
        assert_eq!(table.missing(entry).unwrap(), "/no/such/program is not installed");
        assert_eq!(entry.goodput_bps("7"), Ok(None));
    }

    #[test]
    fn what_is_asked_of_endpoints_replaces_the_keys_of_the_table() {
        let table = Programs::parse("programs.toml", BUILTIN).unwrap();
        let more =
            [("preset".to_owned(), "none".to_owned()), ("ecn".to_owned(), "true".to_owned())];
        let asked = table.find("cubic").unwrap().endpoint(1400, &more);
        let asked: Vec<String> = asked.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(asked, ["packet_size=1400", "preset=none", "ecn=true"]);
        assert_eq!(table.find("linux-cubic").unwrap().endpoint(1400, &more), []);
        let text = "[[programs]]\nname = \"a\"\nserver = \"s\"\nclient = \"c\"\nendpoint = { ecn = \"true\" }";
        let error = Programs::parse("t", text).unwrap_err();
        assert!(error.contains("neither server nor client has {endpoint}"), "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_executed_is_no_command() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("command");
        fs::write(&file, "").unwrap();
        let name = file.display().to_string();
        let text = format!(
            "[[programs]]\nname = \"a\"\nneeds = [\"{name}\"]\nserver = \"s\"\nclient = \"c\""
        );
        let table = Programs::parse("t", &text).unwrap();
        let missing = |mode: u32| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            table.missing(&table.entries()[0])
        };
        assert_eq!(missing(0o644), Some(format!("{name} is not installed")));
        assert_eq!(missing(0o755), None);
    }

    #[test]
    fn a_program_with_a_row_of_the_kernel_runs_where_that_row_does() {
        let text = |more: &str| {
            format!(
                "[[programs]]\nname = \"tcp of {{row}}!\"\nserver = \"s\"\nclient = \"c\"\n{more}"
            )
        };
        let table = Programs::parse("t", &text("kernel_row = \"{row}\"")).unwrap();
        let entry = table.find("tcp of upwind!").unwrap();
        assert_eq!((&*entry.name, entry.kernel_row.as_deref()), ("tcp of upwind!", Some("upwind")));
        let words = Words { windward: "w", endpoint: "", folder: "f" };
        assert_eq!(entry.program(0, 1, &words).congestion_control.unwrap(), "windward");
        for none in ["tcp of no-such!", "tcp of {row}!", "tcp of upwind", "upwind"] {
            assert_eq!(table.find(none), None, "{none}");
        }
        assert!(table.missing(&entry).unwrap().contains("no feature `kernel`"));
        let table = table.with_kernel(|row, run| {
            run();
            if row == "upwind" { Err("the kernel is full".to_owned()) } else { Ok(()) }
        });
        assert_eq!(table.missing(&entry).unwrap(), "the kernel is full");
        // The kernel has no `windward` of its own, so that it is not looked for.
        assert_eq!(table.missing(&table.entries()[0]), None);
        let error = Programs::parse("t", &text("kernel_row = \"a\"\ncongestion_control = \"b\""));
        assert!(error.unwrap_err().starts_with("t:5: "));
    }

    #[test]
    fn a_table_of_ones_own_lies_over_the_other() {
        let entry = |name: &str, server: &str| {
            format!("[[programs]]\nname = \"{name}\"\nserver = \"{server}\"\nclient = \"c\"\n")
        };
        let below = Programs::parse("t", &(entry("a", "old") + &entry("b", "old"))).unwrap();
        let above = Programs::parse("t", &entry("a", "new")).unwrap();
        let both = below.under(above);
        let servers: Vec<&str> = both.entries().iter().map(|entry| &*entry.server).collect();
        assert_eq!(servers, ["new", "old"]);
        let twice = entry("a", "x") + &entry("a", "y");
        assert!(Programs::parse("t", &twice).unwrap_err().contains("two programs"));
    }
}
