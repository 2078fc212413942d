//! Reader of a qlog file, event by event.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windward_sim::input;

use crate::event::{Data, LogEvent, Number, Object, RawEvent};
use crate::scan::{Kept, Scanner, Stop};

/// The largest event that is read, bytes; larger ones are skipped.
const MAX_EVENT: usize = 16 << 20;
/// The largest description of a log or trace that is read, bytes.
const MAX_HEADER: usize = 1 << 20;
/// Size of read buffers.
const BUFFER: usize = 1 << 16;
/// Before each record of a JSON text sequence (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;

/// Before the text, in UTF-8, by some editors.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Reason why a file cannot be read as qlog.
#[derive(Debug)]
pub struct LogError {
    /// Its path.
    pub path: PathBuf,
    /// The error and its remedy.
    pub message: String,
}

impl std::fmt::Display for LogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}

impl std::error::Error for LogError {}

/// Layout of the events in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Layout {
    /// One object with traces, each with its events.
    #[serde(rename = "JSON")]
    Contained,
    /// A record for each event behind a record separator (RFC 7464).
    #[serde(rename = "JSON-SEQ")]
    Sequence,
    /// A line for each event.
    #[serde(rename = "NDJSON")]
    Lines,
}

/// Header of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogInfo {
    /// The version of qlog: `0.3`, `draft-02`, or the schema of the current drafts.
    pub version: String,
    /// Layout of the events in the file.
    pub layout: Layout,
    /// The title of the trace, or of the file.
    pub title: Option<String>,
    /// The vantage point: `client`, `server`, `network`, `unknown`.
    pub vantage: Option<String>,
    /// Number of traces in the file.
    pub traces: usize,
    /// Number of the trace that is read, from 1.
    pub trace: usize,
}

/// Reference of the times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeFormat {
    /// Time since an arbitrary reference: only differences are used.
    SinceReference,
    SincePrevious,
}

impl TimeFormat {
    fn of(word: &str) -> Option<Self> {
        match word {
            "absolute" | "relative" | "relative_to_epoch" => Some(TimeFormat::SinceReference),
            "delta" | "relative_to_previous_event" => Some(TimeFormat::SincePrevious),
            _ => None,
        }
    }
}

/// The columns of events as rows, before draft-02.
#[derive(Debug, Clone, Copy)]
struct Columns {
    time: usize,
    category: Option<usize>,
    kind: usize,
    data: usize,
}

/// The header of a trace.
#[derive(Debug, Clone)]
struct TraceHeader {
    title: Option<String>,
    vantage: Option<String>,
    time_format: TimeFormat,
    /// Milliseconds in a unit of time.
    unit_ms: f64,
    columns: Option<Columns>,
    /// Offset of the events of a contained trace, after their bracket.
    events_at: Option<u64>,
    /// Position of the events.
    error: Option<String>,
}

/// Reads the events of one trace of a file, in the order of the file.
///
/// Invalid events are skipped, and a truncated file is read up to its end. [`LogReader::warnings`]
/// reports both.
#[derive(Debug)]
pub struct LogReader {
    path: PathBuf,
    info: LogInfo,
    trace: TraceHeader,
    scanner: Scanner<BufReader<File>>,
    /// Events read from the array, for its commas.
    count: usize,
    ended: bool,
    text: Vec<u8>,
    clock_ms: f64,
    /// The group of the first event that has one: a connection, if a stack logs several into a
    /// file.
    group: Option<String>,
    events: u64,
    passed_over: Vec<PassedOver>,
    cut: Option<String>,
}

/// Events that could not be used for one reason.
#[derive(Debug, Clone, Copy)]
struct PassedOver {
    why: &'static str,
    count: u64,
    first_at: u64,
}

impl LogReader {
    /// Opens a file and one of its traces, counted from 1; `None` is the first with events.
    ///
    /// # Errors
    /// If it cannot be read, is not a qlog file, has an unsupported version, or has no such trace.
    pub fn open(path: &Path, trace: Option<usize>) -> Result<Self, LogError> {
        let fail = |message: String| LogError { path: path.to_owned(), message };
        let io = |error: io::Error| fail(format!("cannot read: {error}"));
        let mut file = File::open(path).map_err(io)?;
        if !file.metadata().map_err(io)?.is_file() {
            return Err(fail(
                "is not a regular file; logs are read twice, so that pipes do not work".into(),
            ));
        }
        let mut start = [0; 8];
        let read = file.read(&mut start).map_err(io)?;
        if let Some(format) = input::foreign(&start[..read]) {
            return Err(fail(format!("is {format}")));
        }
        file.rewind().map_err(io)?;
        let mut scanner = Scanner::new(BufReader::with_capacity(BUFFER, file), 0);
        let survey = Survey::of(&mut scanner).map_err(|stop| match stop {
            Refusal::Io(error) => io(error),
            Refusal::Said(message) => fail(message),
        })?;
        let Survey { version, layout, title, traces, rest_at, cut } = survey;
        let index = choose(&traces, trace).map_err(fail)?;
        let header = traces[index].clone();
        if let Some(error) = &header.error {
            return Err(fail(format!(
                "trace {} has an error instead of events: {error}",
                index + 1
            )));
        }
        let start = header.events_at.unwrap_or(rest_at);
        let mut file = File::open(path).map_err(io)?;
        file.seek(SeekFrom::Start(start)).map_err(io)?;
        let info = LogInfo {
            version,
            layout,
            title: header.title.clone().or(title),
            vantage: header.vantage.clone(),
            traces: traces.len(),
            trace: index + 1,
        };
        Ok(LogReader {
            path: path.to_owned(),
            info,
            trace: header,
            scanner: Scanner::new(BufReader::with_capacity(BUFFER, file), start),
            count: 0,
            ended: false,
            text: Vec::new(),
            clock_ms: 0.0,
            group: None,
            events: 0,
            passed_over: Vec::new(),
            cut,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Header of the log.
    pub fn info(&self) -> &LogInfo {
        &self.info
    }

    /// Number of returned events.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Sentences on the parts that could not be read so far.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.info.traces > 1 {
            warnings.push(format!(
                "has {} traces, of which number {} is read",
                self.info.traces, self.info.trace
            ));
        }
        for PassedOver { why, count, first_at } in &self.passed_over {
            let (events, verb) = if *count == 1 { ("event", "was") } else { ("events", "were") };
            warnings.push(format!(
                "{count} {events} {verb} skipped, the first at byte {first_at}: {why}"
            ));
        }
        warnings.extend(self.cut.clone());
        warnings
    }

    /// The next event; `None` at the end of the trace or of a truncated file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_event(&mut self) -> Result<Option<LogEvent>, LogError> {
        while !self.ended {
            let event = match self.info.layout {
                Layout::Contained => self.next_in_array(),
                Layout::Sequence => self.next_record(RECORD_SEPARATOR),
                Layout::Lines => self.next_record(b'\n'),
            };
            match event {
                Ok(Some(event)) => {
                    self.events += 1;
                    return Ok(Some(event));
                }
                Ok(None) => {}
                Err(error) => {
                    let message = format!("cannot read: {error}");
                    return Err(LogError { path: self.path.clone(), message });
                }
            }
        }
        Ok(None)
    }

    /// The next event of the array; `None` if it is skipped or was the last.
    fn next_in_array(&mut self) -> io::Result<Option<LogEvent>> {
        let begun = self.scanner.another(self.count, b']').and_then(|more| {
            if more {
                // From here on, a cut is inside the event.
                self.scanner.peek()?;
            }
            Ok(more.then(|| self.scanner.at()))
        });
        let taken = begun.and_then(|at| match at {
            None => Ok(None),
            Some(at) => Ok(Some((at, self.scanner.value(&mut self.text, MAX_EVENT)?))),
        });
        match taken {
            Ok(Some((at, kept))) => {
                self.count += 1;
                Ok(self.understand(at, kept, false))
            }
            Ok(None) => {
                self.ended = true;
                Ok(None)
            }
            Err(Stop::Io(error)) => Err(error),
            Err(stop) => {
                self.ended = true;
                self.cut = Some(cut(self.scanner.at(), &stop));
                Ok(None)
            }
        }
    }

    /// The next record or line.
    fn next_record(&mut self, separator: u8) -> io::Result<Option<LogEvent>> {
        let at = self.scanner.at();
        let Some(kept) = self.scanner.record(separator, &mut self.text, MAX_EVENT)? else {
            self.ended = true;
            return Ok(None);
        };
        if kept == Kept::Whole && self.text.trim_ascii().is_empty() {
            return Ok(None);
        }
        let is_last = self.scanner.peek()?.is_none();
        Ok(self.understand(at, kept, is_last))
    }

    fn pass_over(&mut self, why: &'static str, at: u64) {
        match self.passed_over.iter_mut().find(|passed| passed.why == why) {
            Some(passed) => passed.count += 1,
            None => self.passed_over.push(PassedOver { why, count: 1, first_at: at }),
        }
    }

    /// Parses `self.text`, which begins at `at`.
    fn understand(&mut self, at: u64, kept: Kept, is_last: bool) -> Option<LogEvent> {
        if kept == Kept::TooLong {
            self.pass_over("larger than 16 MiB", at);
            return None;
        }
        let text = std::mem::take(&mut self.text);
        let understood = match self.trace.columns {
            None => object(&text, self.trace.unit_ms),
            Some(columns) => row(&text, columns, self.trace.unit_ms),
        };
        self.text = text;
        let Understood { time, time_format, group, what } = match understood {
            Ok(event) => event,
            Err(()) => {
                match flaw(&self.text) {
                    Flaw::Cut if is_last => self.cut = Some(cut(at, &Stop::Cut)),
                    Flaw::Several => {
                        self.pass_over("several JSON values in one record or line", at);
                    }
                    Flaw::Cut | Flaw::Other => self.pass_over("not a JSON event", at),
                }
                return None;
            }
        };
        let Some(time) = time else {
            self.pass_over("without a time", at);
            return None;
        };
        let time_ms = time * self.trace.unit_ms;
        let since_previous = time_format.unwrap_or(self.trace.time_format);
        let time_ms = match since_previous {
            TimeFormat::SinceReference => time_ms,
            TimeFormat::SincePrevious => self.clock_ms + time_ms,
        };
        // Beyond a hundred thousand years, differences of milliseconds are lost in the rounding.
        if !time_ms.is_finite() || time_ms.abs() > 3e15 {
            self.pass_over("with an impossible time", at);
            return None;
        }
        self.clock_ms = time_ms;
        if let Some(group) = group
            && *self.group.get_or_insert_with(|| group.clone()) != group
        {
            self.pass_over(
                "with another group_id than the first, perhaps of another connection",
                at,
            );
            return None;
        }
        Some(LogEvent { time_ms, at, what })
    }
}

/// Reason why a record is not an event.
enum Flaw {
    /// It ends inside of a value.
    Cut,
    Several,
    Other,
}

fn flaw(record: &[u8]) -> Flaw {
    let mut scanner = Scanner::new(record, 0);
    match (scanner.pass(), scanner.peek()) {
        (Err(Stop::Cut), _) => Flaw::Cut,
        (Ok(()), Ok(Some(_))) => Flaw::Several,
        _ => Flaw::Other,
    }
}

/// An event with its time in the units of the log.
struct Understood {
    time: Option<f64>,
    time_format: Option<TimeFormat>,
    group: Option<String>,
    what: crate::event::What,
}

fn object(text: &[u8], unit_ms: f64) -> Result<Understood, ()> {
    let Object(event) = serde_json::from_slice::<Object<RawEvent<'_>>>(text).map_err(|_| ())?;
    if !text.trim_ascii_start().starts_with(b"{") {
        return Err(());
    }
    let name = event.name.0.as_ref();
    let (category, kind) = match name.split_once(':') {
        Some(parts) => parts,
        None if !event.kind.0.is_empty() => (event.category.0.as_ref(), event.kind.0.as_ref()),
        None => (event.category.0.as_ref(), name),
    };
    Ok(Understood {
        time: event.time.real(),
        time_format: TimeFormat::of(&event.time_format.0),
        group: event.group_id.some().map(str::to_owned),
        what: event.data.0.what(category, kind, unit_ms),
    })
}

fn row(text: &[u8], columns: Columns, unit_ms: f64) -> Result<Understood, ()> {
    let cells: Vec<Value> = serde_json::from_slice(text).map_err(|_| ())?;
    let cell = |index: usize| cells.get(index).ok_or(());
    let word = |index: usize| cell(index).map(|cell| cell.as_str().unwrap_or_default());
    let time = Number::deserialize(cell(columns.time)?).map_err(|_| ())?;
    let category = columns.category.map(word).transpose()?.unwrap_or_default();
    let kind = word(columns.kind)?;
    let Object(data) = Object::<Data<'_>>::deserialize(cell(columns.data)?).map_err(|_| ())?;
    let what = data.what(category, kind, unit_ms);
    Ok(Understood { time: time.real(), time_format: None, group: None, what })
}

/// Index of the selected trace.
fn choose(traces: &[TraceHeader], wanted: Option<usize>) -> Result<usize, String> {
    match wanted {
        _ if traces.is_empty() => Err("has no traces".to_owned()),
        Some(number) if number == 0 || number > traces.len() => {
            let (count, traces) =
                (traces.len(), if traces.len() == 1 { "trace" } else { "traces" });
            Err(format!("has {count} {traces}, counted from 1, but not number {number}"))
        }
        Some(number) => Ok(number - 1),
        None => Ok(traces.iter().position(|trace| trace.error.is_none()).unwrap_or(0)),
    }
}

/// A sentence on a file that is read up to a byte only.
fn cut(at: u64, stop: &Stop) -> String {
    match stop {
        Stop::Unexpected(byte) => {
            format!("is read only up to byte {at}, which is {}", shown(*byte))
        }
        _ => format!("is truncated at byte {at}, and read up to there"),
    }
}

/// A byte in readable form.
fn shown(byte: u8) -> String {
    match byte {
        b' '..=b'~' => format!("{:?}", char::from(byte)),
        _ => format!("a byte {byte:#04x}"),
    }
}

/// Result of a first look at a file.
struct Survey {
    version: String,
    layout: Layout,
    title: Option<String>,
    traces: Vec<TraceHeader>,
    /// Offset of the first record behind the header.
    rest_at: u64,
    cut: Option<String>,
}

/// Reason why a file is not a valid log.
enum Refusal {
    Io(io::Error),
    Said(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Refusal::Io(error)
    }
}

/// Supported formats, for errors.
const UNDERSTOOD: &str = "supported are qlog 0.3 and 0.4 (and the earlier draft-00 to \
                          draft-02) and the current drafts (urn:ietf:params:qlog:file:..), as JSON, \
                          JSON text sequence or lines of JSON";

impl Survey {
    fn of(scanner: &mut Scanner<BufReader<File>>) -> Result<Survey, Refusal> {
        let mut first = scanner.peek()?;
        if first == Some(0xef) && BYTE_ORDER_MARK.iter().all(|b| scanner.expect(*b).is_ok()) {
            first = scanner.peek()?;
        }
        match first {
            Some(RECORD_SEPARATOR) => Self::of_sequence(scanner),
            Some(b'{') => Self::of_object(scanner),
            None => Err(Refusal::Said(format!("is empty; {UNDERSTOOD}"))),
            Some(byte) => Err(Refusal::Said(format!(
                "is not a qlog file: it begins with {}; {UNDERSTOOD}",
                shown(byte)
            ))),
        }
    }

    /// Reads a separate header, followed by events.
    fn of_header(header: &Value, layout: Layout, rest_at: u64) -> Result<Survey, Refusal> {
        let version = version(header).map_err(Refusal::Said)?;
        let trace = header.get("trace").unwrap_or(&Value::Null);
        let trace = TraceHeader::of(trace).map_err(Refusal::Said)?;
        let title = text_of(header, "title");
        Ok(Survey { version, layout, title, traces: vec![trace], rest_at, cut: None })
    }

    fn of_sequence(scanner: &mut Scanner<BufReader<File>>) -> Result<Survey, Refusal> {
        let mut text = Vec::new();
        while let Some(kept) = scanner.record(RECORD_SEPARATOR, &mut text, MAX_HEADER)? {
            if kept == Kept::Whole && text.trim_ascii().is_empty() {
                continue;
            }
            let header = serde_json::from_slice(&text).ok().filter(Value::is_object);
            let Some(header) = header else {
                let message = "begins as a JSON text sequence, but its first record is not a JSON \
                               object that describes a log";
                return Err(Refusal::Said(message.to_owned()));
            };
            return Self::of_header(&header, Layout::Sequence, scanner.at());
        }
        Err(Refusal::Said("is a JSON text sequence without records".to_owned()))
    }

    /// Reads one object with all events, or the header of lines.
    fn of_object(scanner: &mut Scanner<BufReader<File>>) -> Result<Survey, Refusal> {
        let mut header = serde_json::Map::new();
        let mut traces = None;
        let walked = walk(scanner, |scanner, name| match name {
            "traces" => {
                let found = traces.insert(Vec::new());
                walk_traces(scanner, found)
            }
            _ => keep(scanner, name, &mut header),
        });
        let mut more = None;
        let cut = match walked {
            Ok(()) => {
                more = scanner.peek()?.map(|_| {
                    let at = scanner.at();
                    format!(
                        "has another value behind the log, from byte {at} on, which is not read"
                    )
                });
                None
            }
            Err(Stop::Io(error)) => return Err(error.into()),
            Err(stop) => Some((scanner.at(), stop)),
        };
        let header = Value::Object(header);
        let Some(found) = traces else {
            return match cut {
                None => Self::of_header(&header, Layout::Lines, scanner.at()),
                Some((at, Stop::Unexpected(byte))) => Err(Refusal::Said(format!(
                    "is not JSON: byte {at} is {}; {UNDERSTOOD}",
                    shown(byte)
                ))),
                Some((at, _)) => {
                    // The available part may identify the file.
                    version(&header).map_err(Refusal::Said)?;
                    Err(Refusal::Said(format!("is truncated at byte {at}, before any trace")))
                }
            };
        };
        let version = match version(&header) {
            Ok(version) => version,
            Err(message) => return Err(Refusal::Said(message)),
        };
        let traces: Result<Vec<_>, _> = found.into_iter().map(TraceHeader::of_found).collect();
        let cut = cut.map(|(at, stop)| self::cut(at, &stop));
        Ok(Survey {
            version,
            layout: Layout::Contained,
            title: text_of(&header, "title"),
            traces: traces.map_err(Refusal::Said)?,
            rest_at: 0,
            cut: cut.or(more),
        })
    }
}

/// Walks the members of an object.
fn walk(
    scanner: &mut Scanner<BufReader<File>>,
    mut member: impl FnMut(&mut Scanner<BufReader<File>>, &str) -> Result<(), Stop>,
) -> Result<(), Stop> {
    scanner.expect(b'{')?;
    let mut count = 0;
    while scanner.another(count, b'}')? {
        let name = scanner.name()?;
        member(scanner, &name)?;
        count += 1;
    }
    Ok(())
}

/// A trace in a file, before its header is understood.
#[derive(Debug, Default)]
struct FoundTrace {
    header: serde_json::Map<String, Value>,
    events_at: Option<u64>,
}

fn walk_traces(
    scanner: &mut Scanner<BufReader<File>>,
    traces: &mut Vec<FoundTrace>,
) -> Result<(), Stop> {
    /// Maximum number of traces of a file.
    const MOST: usize = 100_000;
    scanner.expect(b'[')?;
    let mut count = 0;
    while scanner.another(count, b']')? {
        count += 1;
        if traces.len() == MOST {
            scanner.pass()?;
            continue;
        }
        let mut trace = FoundTrace::default();
        let walked = walk_trace(scanner, &mut trace);
        traces.push(trace);
        walked?;
    }
    Ok(())
}

fn walk_trace(scanner: &mut Scanner<BufReader<File>>, trace: &mut FoundTrace) -> Result<(), Stop> {
    if scanner.peek()? != Some(b'{') {
        return scanner.pass();
    }
    walk(scanner, |scanner, name| {
        if name != "events" || scanner.peek()? != Some(b'[') {
            return keep(scanner, name, &mut trace.header);
        }
        scanner.expect(b'[')?;
        trace.events_at = Some(scanner.at());
        let mut count = 0;
        while scanner.another(count, b']')? {
            scanner.pass()?;
            count += 1;
        }
        Ok(())
    })
}

/// Keeps a member of a header, if it is not too large.
fn keep(
    scanner: &mut Scanner<BufReader<File>>,
    name: &str,
    header: &mut serde_json::Map<String, Value>,
) -> Result<(), Stop> {
    let mut text = Vec::new();
    let kept = scanner.value(&mut text, MAX_HEADER)?;
    if kept == Kept::Whole
        && header.len() < 100
        && let Ok(value) = serde_json::from_slice(&text)
    {
        header.insert(name.to_owned(), value);
    }
    Ok(())
}

fn text_of(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The version that a log declares.
fn version(header: &Value) -> Result<String, String> {
    if let Some(schema) = header.get("file_schema") {
        let schema = schema.as_str().unwrap_or_default();
        return match schema.starts_with("urn:ietf:params:qlog:file:") {
            true => Ok(schema.to_owned()),
            false => Err(format!("has the unsupported schema {schema:?}; {UNDERSTOOD}")),
        };
    }
    match header.get("qlog_version") {
        Some(Value::String(version)) => {
            let known = ["0.3", "0.4", "draft-00", "draft-01", "draft-02"];
            let is_known =
                known.iter().any(|known| version == known) || version.starts_with("draft-02-");
            match is_known {
                true => Ok(version.clone()),
                false => Err(format!("has the unsupported qlog version {version:?}; {UNDERSTOOD}")),
            }
        }
        Some(other) => {
            Err(format!("has the qlog version {other}, which is not a text; {UNDERSTOOD}"))
        }
        None => {
            let names = header.as_object().into_iter().flat_map(serde_json::Map::keys);
            let names: Vec<&str> = names.map(String::as_str).take(5).collect();
            let found = match names[..] {
                [] => "an object without members".to_owned(),
                _ => format!("an object with {}", names.join(", ")),
            };
            Err(format!(
                "is not a qlog file: it is {found}, without qlog_version and file_schema; {UNDERSTOOD}"
            ))
        }
    }
}

impl TraceHeader {
    fn of_found(found: FoundTrace) -> Result<Self, String> {
        let FoundTrace { header, events_at } = found;
        let mut trace = Self::of(&Value::Object(header))?;
        trace.events_at = events_at;
        if events_at.is_none() && trace.error.is_none() {
            trace.error = Some("it has no events".to_owned());
        }
        Ok(trace)
    }

    fn of(trace: &Value) -> Result<Self, String> {
        let nothing = Value::Null;
        let common = trace.get("common_fields").unwrap_or(&nothing);
        let vantage = trace.get("vantage_point").unwrap_or(&nothing);
        let configuration = trace.get("configuration").unwrap_or(&nothing);
        let mut time_format = match text_of(common, "time_format") {
            None => TimeFormat::SinceReference,
            Some(word) => TimeFormat::of(&word).ok_or_else(|| {
                format!("its times are {word:?}, which is not a time_format of qlog")
            })?,
        };
        let units = text_of(configuration, "time_units").or_else(|| text_of(common, "time_units"));
        let unit_ms = match units.as_deref() {
            None | Some("ms") => 1.0,
            Some("us") => 1e-3,
            Some(other) => {
                return Err(format!(
                    "its times are in {other:?}; those of qlog are in \"ms\" or \"us\""
                ));
            }
        };
        let columns = match trace.get("event_fields").and_then(Value::as_array) {
            None => None,
            Some(fields) => {
                let place = |names: &[&str]| {
                    fields.iter().position(|field| {
                        let field = field.as_str().unwrap_or_default();
                        names.iter().any(|name| name.eq_ignore_ascii_case(field))
                    })
                };
                if place(&["delta_time"]).is_some() {
                    time_format = TimeFormat::SincePrevious;
                }
                let time = place(&["time", "relative_time", "delta_time"]);
                let kind = place(&["event", "event_type", "type", "name"]);
                let (Some(time), Some(kind), Some(data)) = (time, kind, place(&["data"])) else {
                    let message = "its event_fields lack time, event or data";
                    return Err(message.to_owned());
                };
                Some(Columns { time, category: place(&["category"]), kind, data })
            }
        };
        Ok(TraceHeader {
            title: text_of(trace, "title"),
            vantage: text_of(vantage, "type"),
            time_format,
            unit_ms,
            columns,
            events_at: None,
            error: text_of(trace, "error_description"),
        })
    }
}
