//! `windward compare-logs`: two qlogs of the same workload side by side, or one and the row that is
//! fitted to it.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;
use windward_core::units::Duration;
use windward_fit::{Fit, FitError, FitOptions, ObserveOptions, Parameter, Range, fit};
use windward_logs::{
    Align, CompareError, CompareOptions, Comparison, Departure, LogSummary, Quantity, Sample,
    compare,
};
use windward_report::plot;

use crate::failure::Failure;
use crate::output::{self, TextTable, rate, seconds, si};
use crate::progress::Progress;
use crate::run::plot_parser;
use crate::signals;

/// Compare two qlogs of the same workload, and report where they depart from each other
///
/// Reads qlogs of QUIC stacks and of `windward run --qlog`: versions 0.3 and 0.4 and the current
/// drafts, as JSON, JSON text sequences or lines. Two logs depart where the window, the bytes in
/// flight, the smoothed RTT or the rate differ by more than the tolerance for longer than a round
/// trip.
///
/// With `--fit PROTOCOL`, B is a simulated run of that protocol. The bottleneck rate, base RTT,
/// queue and random loss of its link are those with which it behaves most like the sender of A.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// First log, for instance of the reference; with --fit, the log of a sender
    #[arg(value_name = "A")]
    a: PathBuf,

    /// Second log, for instance of a stack
    #[arg(value_name = "B", required_unless_present = "fit")]
    b: Option<PathBuf>,

    #[command(flatten)]
    fit: FitArgs,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// Draw both logs over time
    #[arg(long, value_name = "FILE.svg", value_parser = plot_parser())]
    plot: Option<PathBuf>,

    #[command(flatten)]
    reading: ReadingArgs,

    /// Exit with status 1 if the logs depart
    #[arg(long)]
    strict: bool,
}

/// The fit of a link.
#[derive(Debug, clap::Args)]
struct FitArgs {
    /// Fit the link of this protocol to A, and compare A with it: a name of `windward list`
    #[arg(long, value_name = "PROTOCOL")]
    fit: Option<String>,

    /// First seed of the runs of --fit
    #[arg(long, value_name = "N", default_value_t = 1, requires = "fit", conflicts_with = "b")]
    seed: u64,

    /// Maximum number of runs of --fit
    #[arg(long, value_name = "N", default_value_t = FitOptions::default().most_runs,
          value_parser = clap::value_parser!(u64).range(FitOptions::LEAST_RUNS..), requires = "fit",
          conflicts_with = "b")]
    runs: u64,

    /// Write the scenario of the best run of --fit
    #[arg(long, value_name = "FILE.toml", requires = "fit", conflicts_with = "b")]
    scenario: Option<PathBuf>,
}

/// How the logs are read and compared.
#[derive(Debug, clap::Args)]
struct ReadingArgs {
    /// Largest difference between two values, as a share of the larger one
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = parse_share,
          allow_hyphen_values = true)]
    tolerance: f64,

    /// Time for which values must differ [default: one smoothed RTT]
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    hold: Option<Duration>,

    /// Time over which rates are averaged
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_window,
          allow_hyphen_values = true)]
    rate_window: Duration,

    /// Event at which the clocks of both logs begin
    #[arg(long, value_name = "WHERE", default_value = "data")]
    align: Begin,

    /// Number of the trace in the files, from 1: one number for both, or one for each
    #[arg(long, value_name = "N[,M]", value_delimiter = ',', num_args = 1)]
    trace: Vec<usize>,

    /// Unit of RTTs, for stacks that do not write milliseconds: one unit for both, or one for each
    #[arg(long, value_name = "UNIT[,UNIT]", value_delimiter = ',', num_args = 1)]
    rtt_unit: Vec<Unit>,
}

/// Event at which clocks begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Begin {
    /// First packet of application data
    Data,
    /// First packet of any kind
    Packet,
    /// First event
    Event,
    /// Clocks as they are in the logs
    Nothing,
}

/// Unit of RTTs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Unit {
    /// Seconds
    S,
    /// Milliseconds, as in qlog
    Ms,
    /// Microseconds
    Us,
}

impl Unit {
    fn ms(self) -> f64 {
        match self {
            Unit::S => 1e3,
            Unit::Ms => 1.0,
            Unit::Us => 1e-3,
        }
    }
}

/// One value for both logs, or one for each.
fn pair<T: Copy>(values: &[T], missing: T, option: &str) -> Result<[T; 2], Failure> {
    match values[..] {
        [] => Ok([missing; 2]),
        [both] => Ok([both; 2]),
        [a, b] => Ok([a, b]),
        _ => {
            Err(Failure::Input(format!("{option}: expected at most two values, one for each log")))
        }
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim(), 0.01),
        None => (text.trim(), 1.0),
    };
    match number.parse::<f64>().map(|number| number * unit) {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        Ok(_) => Err("must be a share from 0 to 1, or from 0% to 100%".to_owned()),
        Err(_) => Err("is not a number; write for instance 0.1 or 10%".to_owned()),
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    text.parse().map_err(|error: windward_core::units::ParseUnitError| error.to_string())
}

fn parse_window(text: &str) -> Result<Duration, String> {
    match parse_time(text)? {
        Duration::ZERO => Err("must be greater than zero".to_owned()),
        window => Ok(window),
    }
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        match error {
            CompareError::Log(error) => Failure::Input(error.to_string()),
            CompareError::Cancelled => Failure::Interrupted,
        }
    }
}

/// Rows of the table over time.
const ROWS: usize = 16;

pub(crate) fn compare_logs(args: &Args, quiet: bool) -> Result<(), Failure> {
    let mut options = args.reading.options(args.fit.fit.is_some())?;
    output::claim_json(args.json)?;
    // Before a long search.
    let scenario = args.fit.scenario.as_deref().map(|path| output::create("--scenario", path));
    let scenario = scenario.transpose()?;
    signals::check()?;
    let (fit, comparison) = match (&args.fit.fit, &args.b) {
        (Some(protocol), _) => {
            // B is ours.
            (options.traces[1], options.rtt_unit_ms[1]) = (None, 1.0);
            let (fit, comparison) = fitted(args, protocol, &options, quiet)?;
            (Some(fit), comparison)
        }
        (None, Some(b)) => (None, compare([&args.a, b], &options, signals::flag())?),
        (None, None) => unreachable!("clap requires B without --fit"),
    };
    if !quiet {
        for log in &comparison.logs {
            for warning in &log.warnings {
                output::note(&format!("note: {} {warning}", log.path.display()));
            }
        }
    }
    if let Some(path) = &args.plot {
        draw(path, &comparison)?;
        if !quiet {
            output::note(&format!("chart: {}", path.display()));
        }
    }
    if let (Some(file), Some(fit)) = (scenario, &fit) {
        file.finish(fit.scenario.as_bytes())?;
    }
    if args.json {
        output::print_json(&Printed { fit: fit.as_ref(), comparison: &comparison })?;
    } else {
        let fit = fit.as_ref().map(fit_text).unwrap_or_default();
        output::print(&(fit + &text(&comparison)))?;
    }
    match comparison.departures.first() {
        Some(first) if args.strict => Err(Failure::Failed(format!(
            "the logs depart: {} at {}",
            first.quantity.name(),
            instant(first.time_ms)
        ))),
        _ => Ok(()),
    }
}

impl ReadingArgs {
    /// The options for two logs, or for one with a fit.
    fn options(&self, is_fit: bool) -> Result<CompareOptions, Failure> {
        for (option, values) in [("--trace", self.trace.len()), ("--rtt-unit", self.rtt_unit.len())]
        {
            if is_fit && values > 1 {
                return Err(Failure::Input(format!(
                    "{option}: with --fit there is one log: write one"
                )));
            }
        }
        let traces: Vec<Option<usize>> = self.trace.iter().copied().map(Some).collect();
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        Ok(CompareOptions {
            tolerance: self.tolerance,
            hold_ms: self.hold.map(ms),
            rate_window_ms: ms(self.rate_window),
            align: match self.align {
                Begin::Data => Align::Data,
                Begin::Packet => Align::Packet,
                Begin::Event => Align::Event,
                Begin::Nothing => Align::Nothing,
            },
            traces: pair(&traces, None, "--trace")?,
            rtt_unit_ms: pair(&self.rtt_unit, Unit::Ms, "--rtt-unit")?.map(Unit::ms),
        })
    }
}

/// The result as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    fit: Option<&'a Fit>,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

impl From<FitError> for Failure {
    fn from(error: FitError) -> Self {
        match error {
            FitError::Cancelled => Failure::Interrupted,
            FitError::Qlog(error) => error.into(),
            FitError::Folder(_) => Failure::Failed(error.to_string()),
            FitError::Protocol(_) | FitError::Log(_) | FitError::Scenario(_) => {
                Failure::Input(error.to_string())
            }
        }
    }
}

/// The link on which the protocol is most like A, and A beside a run over it.
fn fitted(
    args: &Args,
    protocol: &str,
    options: &CompareOptions,
    quiet: bool,
) -> Result<(Fit, Comparison), Failure> {
    let log = ObserveOptions { trace: options.traces[0], rtt_unit_ms: options.rtt_unit_ms[0] };
    let fits =
        FitOptions { log, seed: args.fit.seed, most_runs: args.fit.runs, ..FitOptions::default() };
    let bar = Progress::new(quiet);
    let progress = |share: f64, least: f64| bar.set(share, &format!("residual {least:.3}"));
    let fit = fit(&args.a, protocol, &fits, signals::flag(), &progress)?;
    let comparison = fit.compare(&args.a, options, signals::flag())?;
    Ok((fit, comparison))
}

/// A fit for people.
fn fit_text(fit: &Fit) -> String {
    let mut text = format!("{} fits A best on this link, of {} runs:\n\n", fit.protocol, fit.runs);
    let mut table = TextTable::new(["", ">fitted", "determined"]);
    for range in &fit.ranges {
        let value = range.parameter.of(&fit.link);
        let fitted = quantity(range.parameter, value);
        table.row([range.parameter.name().to_owned(), fitted, determined(range)]);
    }
    text += &table.text();
    text += &format!("\nresidual {:.3}", fit.residual.total);
    text += &match fit.chance {
        Some(chance) => {
            format!("; runs over this link with other random losses differ by {chance:.3}\n")
        }
        None => "\n".to_owned(),
    };
    let parts = fit.residual.parts();
    let known = parts.iter().filter_map(|(name, part)| Some(format!("{name} {:.3}", (*part)?)));
    text += &format!("  {}\n", known.collect::<Vec<_>>().join(", "));
    for note in &fit.notes {
        text += &format!("note: {note}\n");
    }
    text + "\n"
}

fn quantity(parameter: Parameter, value: f64) -> String {
    match parameter {
        Parameter::Rate => rate(value),
        Parameter::BaseRtt => seconds(value),
        Parameter::Queue => format!("{value:.0} packets"),
        Parameter::RandomLoss => format!("{} %", si(value * 100.0).trim_end()),
    }
}

/// How well the log determines a parameter.
fn determined(range: &Range) -> String {
    let of = |value| quantity(range.parameter, value);
    match (range.above, range.below) {
        (Some(above), Some(below)) => format!("between {} and {}", of(above), of(below)),
        (None, Some(below)) => format!("below {}", of(below)),
        (Some(above), None) => format!("above {}", of(above)),
        (None, None) => "not determined by this log".to_owned(),
    }
}

fn draw(path: &Path, comparison: &Comparison) -> Result<(), Failure> {
    let labels = comparison.logs.each_ref().map(name);
    let title = format!("{} and {}", labels[0], labels[1]);
    let labels = [format!("A: {}", labels[0]), format!("B: {}", labels[1])];
    let chart = plot::compared(&title, labels.each_ref().map(String::as_str), comparison);
    let Some(chart) = chart else {
        let message = "--plot: neither log has a window, bytes in flight, RTTs or acknowledgments";
        return Err(Failure::Input(message.to_owned()));
    };
    output::create("--plot", path)?.finish(chart.as_bytes())?;
    Ok(())
}

/// Name of a log for people.
fn name(log: &LogSummary) -> String {
    let file = log.path.file_name().unwrap_or(log.path.as_os_str());
    file.to_string_lossy().into_owned()
}

fn instant(ms: f64) -> String {
    format!("{:.6} s", ms / 1000.0)
}

fn value(quantity: Quantity, value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) => match quantity {
            Quantity::Cwnd | Quantity::BytesInFlight => format!("{value:.0}"),
            Quantity::SmoothedRtt => seconds(value / 1000.0),
            Quantity::Rate => rate(value),
        },
    }
}

/// The comparison for people.
fn text(comparison: &Comparison) -> String {
    let [a, b] = &comparison.logs;
    let mut text = String::new();
    for (letter, log) in [("A", a), ("B", b)] {
        let title =
            log.info.title.as_ref().map_or_else(String::new, |title| format!(", {title:?}"));
        let path = log.path.display();
        text += &format!("{letter}: {path}{title}\n");
    }
    text += "\n";
    text += &summary(a, b).text();
    text += "\n";
    text += &samples(comparison).text();
    text += "\n";
    text += &departures(comparison);
    for note in &comparison.notes {
        text += &format!("note: {note}\n");
    }
    text
}

fn summary(a: &LogSummary, b: &LogSummary) -> TextTable {
    let mut table = TextTable::new(["", ">A", ">B"]);
    let mut row = |what: &str, of: &dyn Fn(&LogSummary) -> String| {
        table.row([what.to_owned(), of(a), of(b)]);
    };
    let bytes =
        |bytes: Option<f64>| bytes.map_or_else(|| "-".to_owned(), |b| format!("{}B", si(b)));
    let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| seconds(ms / 1000.0));
    row("qlog", &|log| {
        let version = log.info.version.strip_prefix("urn:ietf:params:qlog:file:");
        version.unwrap_or(&log.info.version).to_owned()
    });
    row("vantage point", &|log| log.info.vantage.clone().unwrap_or_else(|| "-".to_owned()));
    row("events", &|log| log.events.to_string());
    row("length", &|log| seconds(log.length_ms / 1000.0));
    row("packets sent", &|log| log.counts.packets_sent.to_string());
    row("acknowledged", &|log| log.counts.packets_acked.to_string());
    row("found lost", &|log| log.counts.packets_lost.to_string());
    row("marked", &|log| log.counts.marks.to_string());
    row("timeouts", &|log| log.counts.timeouts.to_string());
    row("mean rate", &|log| log.mean_rate_bps.map_or_else(|| "-".to_owned(), rate));
    row("mean cwnd", &|log| bytes(log.mean_cwnd));
    row("largest cwnd", &|log| bytes(log.counts.max_cwnd));
    row("least rtt", &|log| time(log.counts.min_rtt_ms));
    row("mean smoothed rtt", &|log| time(log.mean_smoothed_rtt_ms));
    table
}

/// Both logs over time, at as many instants as fit a screen.
fn samples(comparison: &Comparison) -> TextTable {
    let mut table = TextTable::new([
        ">time",
        ">cwnd A",
        ">B",
        ">in flight A",
        ">B",
        ">rtt A",
        ">B",
        ">rate A",
        ">B",
    ]);
    let all = &comparison.samples;
    let step = all.len().div_ceil(ROWS).max(1);
    for sample in all.iter().step_by(step) {
        let Sample { time_ms, .. } = sample;
        let mut cells = vec![format!("{:.3} s", time_ms / 1000.0)];
        for quantity in Quantity::ALL {
            cells.extend(sample.values(quantity).map(|one| value(quantity, one)));
        }
        table.row(cells);
    }
    table
}

fn departures(comparison: &Comparison) -> String {
    let tolerance = comparison.tolerance * 100.0;
    let mut text = String::new();
    let [first, rest @ ..] = &comparison.departures[..] else {
        let compared = comparison.until_ms / 1000.0;
        return format!("no departure beyond {tolerance} % in {compared:.3} s\n");
    };
    text += &format!("first departure: {}", told(first));
    for (letter, (before, event)) in ["A", "B"].iter().zip(first.before.iter().zip(&first.events)) {
        if let Some(event) = event {
            text += &format!("  in {letter} at byte {}: {}\n", event.at, event.kind);
        }
        if before.is_empty() {
            text += &format!("  before in {letter}: no loss, mark, timeout or change of state\n");
        }
        for notable in before {
            text +=
                &format!("  before in {letter}: {} {}\n", instant(notable.time_ms), notable.text);
        }
    }
    for departure in rest {
        text += &format!("then {}", told(departure));
    }
    text
}

fn told(departure: &Departure) -> String {
    let Departure { quantity, time_ms, values: [a, b], difference, .. } = departure;
    let unit = match quantity {
        Quantity::Cwnd | Quantity::BytesInFlight => " bytes",
        Quantity::SmoothedRtt | Quantity::Rate => "",
    };
    format!(
        "{} at {}: {}{unit} in A, {}{unit} in B, {:.1} % apart\n",
        quantity.name(),
        instant(*time_ms),
        value(*quantity, Some(*a)),
        value(*quantity, Some(*b)),
        difference * 100.0
    )
}
