//! `windward compare`: programs side by side on one emulated link.

use std::path::PathBuf;

use windward_core::units::{Duration, Probability};
use windward_experiments::comparison::{Comparison, Keeper, Row, Run};
use windward_experiments::statistics::SINGLE;
use windward_net::campaign::{self, Campaign, Cast, Conditions, Effort, Network, Rival};
use windward_net::programs::Programs;
use windward_net::source::Source;
use windward_sim::text::shell_word;

use crate::effort;
use crate::failure::Failure;
use crate::output::{self, TextTable};
use crate::progress::Progress;
use crate::python::Python;
use crate::scenario_args::{parse_change, warn};
use crate::shell::LinkArgs;
use crate::signals;

/// Compare programs on one emulated link: the kernel's TCP, Windward's protocols, and programs of
/// your own
///
/// Each program sends from the far end for some seconds, alone and with a competing flow, at each
/// loss rate and with each seed. Everything is measured at the link, in the same way for all
/// programs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windward compare --rate 10mbit --delay 20ms --queue 100p --loss 0,1%,5% --runs 5
  windward compare --rate 10mbit --delay 20ms --programs upwind,linux-bbr --simulate --out target/compare
  windward compare satellite.toml --programs upwind,linux-cubic --table mine.toml")]
pub(crate) struct Args {
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    programs: ProgramArgs,
    #[command(flatten)]
    runs: RunArgs,
    #[command(flatten)]
    results: ResultArgs,
}

/// The link or scenario on which programs are compared.
#[derive(Debug, clap::Args)]
struct NetworkArgs {
    /// Scenario, a TOML file, in place of the options for a link
    ///
    /// Programs run where the flow with protocol = "outside:port" ends. A dumbbell or a parking lot
    /// without such a flow gets one.
    #[arg(value_name = "SCENARIO", conflicts_with = "Link")]
    file: Option<PathBuf>,

    #[command(flatten)]
    options: LinkArgs,

    /// Probabilities with which the link loses packets of the data, such as 0,1%,5%
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_loss)]
    loss: Vec<f64>,

    /// Name of the bottleneck link, for scenarios that define their own links; --loss and --routers
    /// apply to it
    #[arg(long = "link", value_name = "NAME", requires = "file")]
    link: Option<String>,

    /// Give the link the router that the protocol of each program needs
    #[arg(long)]
    routers: bool,

    /// Change a value of the scenario; may be given more than once
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_change)]
    set: Vec<(String, String)>,
}

/// The programs that are compared.
#[derive(Debug, clap::Args)]
struct ProgramArgs {
    /// Programs: names of the table, rows of `windward list`, or `rows` for all of these
    /// [default: upwind, cubic, bbr, and every program of the table that is installed]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    programs: Vec<String>,

    /// Table of more programs: see docs/compare.md
    #[arg(long, value_name = "FILE")]
    table: Vec<PathBuf>,

    /// Set a parameter of the endpoints of rows of `windward list`, and of the flows simulated with
    /// them; may be given more than once
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_change)]
    endpoint: Vec<(String, String)>,

    /// Run programs only without a competing flow
    #[arg(long)]
    alone: bool,

    /// Program that competes with each of them [default: linux-cubic, or cubic if the kernel lacks
    /// it]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "alone")]
    rival: Option<String>,

    /// List the programs of the table and whether they can run here, and do nothing else
    #[arg(long)]
    list: bool,
}

/// The number and the length of runs.
#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Measured time of each run, whole seconds
    #[arg(long, short, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    time: u32,

    /// Warm-up before the measured time, whole seconds from the arrival of the first full packet
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_warmup)]
    warmup: u32,

    /// Runs of each program at each loss rate, with consecutive seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,

    /// Seed of the first run
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Also simulate each run in virtual time: same scenario, same seed, a simulated flow
    #[arg(long)]
    simulate: bool,

    /// Number of simultaneous runs; each needs part of a core, and a run whose packets are late is
    /// unusable
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
}

/// Where results go.
#[derive(Debug, clap::Args)]
struct ResultArgs {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,

    /// Write index.html with charts, programs.csv, runs.csv and compare.json into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Continue an interrupted comparison, or print a complete one again: runs that the folder of
    /// --out holds are not repeated
    #[arg(long, requires = "out")]
    resume: bool,

    /// Keep a record of each emulation in this folder, as NAME.rec for `windward replay`, and check
    /// that it replays
    #[arg(long, value_name = "DIR")]
    records: Option<PathBuf>,
}

fn parse_loss(text: &str) -> Result<f64, String> {
    let loss: Probability = text.trim().parse().map_err(|error| format!("{error}"))?;
    let loss = loss.get();
    if loss < 1.0 { Ok(loss) } else { Err("nothing would arrive".to_owned()) }
}

fn parse_seconds(text: &str, least: u32) -> Result<u32, String> {
    let time: Duration = text.parse().map_err(|error| format!("{error}"))?;
    let seconds = time.as_ps() / Duration::from_secs(1).as_ps();
    match u32::try_from(seconds) {
        Ok(seconds)
            if (least..=3600).contains(&seconds) && Duration::from_secs(seconds.into()) == time =>
        {
            Ok(seconds)
        }
        _ => Err(format!("whole seconds, {least} to 3600")),
    }
}

fn parse_time(text: &str) -> Result<u32, String> {
    parse_seconds(text, 1)
}

fn parse_warmup(text: &str) -> Result<u32, String> {
    parse_seconds(text, 0)
}

/// Runs the comparison, and prints and writes its results, incomplete ones if it is interrupted.
/// Fails if runs are unusable.
pub(crate) fn compare(args: &Args, quiet: bool, python: &Python<'_>) -> Result<(), Failure> {
    let table = campaign::programs(&args.programs.table)?;
    #[cfg(feature = "kernel")]
    let table = table.with_kernel(crate::kernel::during);
    if args.programs.list {
        return list(&table);
    }
    let cast = args.programs.cast(&table)?;
    if !quiet {
        for (program, why) in &cast.skipped {
            output::note(&format!("{program}: skipped, {why}"));
        }
    }
    let (conditions, effort) = (args.conditions(), args.effort(own_words(python)?));
    let campaign = Campaign::new(args.network.network()?, cast, conditions, effort)?;
    warn(campaign.warnings().iter().map(String::as_str));
    let mut runs = vec![None; campaign.planned()];
    let ResultArgs { out, resume, .. } = &args.results;
    let keeper = out.as_ref();
    let keeper = keeper.map(|dir| Keeper::open(dir, &campaign.key(), *resume, &mut runs));
    let mut keeper = keeper.transpose()?;
    let outcome = run(&campaign, &mut runs, keeper.as_mut(), quiet);
    if let Some(dir) = args.results.records.as_ref().filter(|_| !quiet) {
        let dir = dir.display();
        output::note(&format!("{dir}: records; each replays with the fingerprint of its run"));
    }
    let comparison = Comparison {
        link: campaign.network().to_owned(),
        window: campaign.window(),
        rate_bps: campaign.rate_bps(),
        rival: campaign.rival(),
        planned: campaign.planned(),
        runs: runs.into_iter().flatten().collect(),
        skipped: campaign.skipped().to_vec(),
    };
    if let Err(failure) = outcome {
        drop(keeper);
        if !comparison.runs.is_empty() {
            print(&comparison, args.results.json)?;
        }
        if let Some(dir) = &args.results.out {
            effort::tell_of_resume(quiet, dir);
        }
        return Err(failure);
    }
    if let Some(keeper) = keeper {
        keeper
            .finish(|out| windward_report::write_comparison(out, &comparison, &effort::about()))?;
    }
    print(&comparison, args.results.json)?;
    unusable(&comparison).map_or(Ok(()), |sentence| Err(Failure::Failed(sentence)))
}

/// The number of unusable runs, if there are any.
fn unusable(comparison: &Comparison) -> Option<String> {
    let count = comparison.runs.iter().filter(|run| run.unusable.is_some()).count();
    let verb = if count == 1 { "is" } else { "are" };
    (count > 0).then(|| format!("{count} of {} runs {verb} unusable", comparison.planned))
}

/// Carries out the missing runs; `keeper` stores each result.
fn run(
    campaign: &Campaign,
    runs: &mut [Option<Run>],
    mut keeper: Option<&mut Keeper>,
    quiet: bool,
) -> Result<(), Failure> {
    let progress = Progress::new(quiet);
    campaign.run(runs, signals::flag(), |told| {
        let message = format!("{} of {} runs", told.done, told.planned);
        progress.set(told.done as f64 / told.planned as f64, &message);
        if let (Some((number, run)), Some(keeper)) = (told.ended, &mut keeper) {
            keeper.keep(number, run)?;
        }
        Ok::<_, Failure>(())
    })?;
    if runs.iter().any(Option::is_none) { Err(Failure::Interrupted) } else { Ok(()) }
}

impl Args {
    fn conditions(&self) -> Conditions {
        Conditions {
            losses: self.network.loss.clone(),
            routers: self.network.routers,
            endpoint: self.programs.endpoint.clone(),
            time: self.runs.time,
            warmup: self.runs.warmup,
        }
    }

    fn effort(&self, windward: String) -> Effort {
        Effort {
            runs: self.runs.runs,
            seed: self.runs.seed,
            jobs: self.runs.jobs,
            simulate: self.runs.simulate,
            records: self.results.records.clone(),
            windward,
        }
    }
}

impl NetworkArgs {
    fn network(&self) -> Result<Network, Failure> {
        let mut network = match &self.file {
            None => Network::of_link(&self.options.link(None), crate::stacks())?,
            Some(file) => Network {
                source: Source::read(file, true, crate::stacks())?,
                link: self.link.clone(),
                words: None,
            },
        };
        network.source.changes.extend(self.set.iter().cloned());
        Ok(network)
    }
}

impl ProgramArgs {
    fn cast(&self, table: &Programs) -> Result<Cast, Failure> {
        let rival = match &self.rival {
            _ if self.alone => Rival::None,
            Some(name) => Rival::Named(name.clone()),
            None => Rival::Default,
        };
        Ok(Cast::choose(table, &self.programs, &rival)?)
    }
}

fn print(comparison: &Comparison, as_json: bool) -> Result<(), Failure> {
    output::print(&if as_json { comparison.to_json()? } else { text(comparison) })
}

fn list(table: &Programs) -> Result<(), Failure> {
    let mut text = TextTable::new(["program", "here", "what"]);
    for entry in table.entries() {
        let here = table.missing(entry).unwrap_or_else(|| "yes".to_owned());
        text.row([entry.name.clone(), here, entry.about.clone()]);
    }
    output::print(&(text.text() + "and every row of `windward list`\n"))
}

/// This program, as words of a shell.
fn own_words(python: &Python<'_>) -> Result<String, Failure> {
    let mut words = vec![shell_word(&python.itself()?.to_string_lossy())];
    words.extend(python.module().iter().map(|&word| word.to_owned()));
    Ok(words.join(" "))
}

/// A comparison as text: a row for each program and loss rate, and notes.
fn text(comparison: &Comparison) -> String {
    let rows = comparison.rows();
    let mut text = String::new();
    if let Some(sentence) = unusable(comparison) {
        text += &format!("UNUSABLE: {sentence}; the reasons are below.\n\n");
    }
    text += &format!("{}\n{}\n", comparison.link, comparison.window);
    if comparison.runs.len() < comparison.planned {
        text += &format!("Incomplete: {} of {} runs.\n", comparison.runs.len(), comparison.planned);
    }
    text += &format!("\n{}", rows_table(&rows).text());
    if rows.iter().any(Row::has_single) {
        text += &format!("\n{SINGLE}\n");
    }
    let unlike = comparison.unlike_packets();
    if !unlike.is_empty() {
        let sizes = unlike.iter().map(|(program, size)| format!("{program} {size}"));
        let sizes: Vec<String> = sizes.collect();
        text += &format!("\nPacket sizes differ; bytes of IP: {}.\n", sizes.join(", "));
    }
    if let Some(rival) = &comparison.rival {
        text += &format!("\nThe competing program is {rival}.\n");
    }
    for run in &comparison.runs {
        if let Some(why) = &run.unusable {
            text += &format!(
                "UNUSABLE: {} at {} % with seed {}: {why}\n",
                run.program,
                run.loss * 100.0,
                run.seed
            );
        }
    }
    text
}

fn rows_table(rows: &[Row]) -> TextTable {
    let left = rows.iter().any(|row| row.left.is_some());
    let simulated_left = rows.iter().any(|row| row.simulated_left.is_some());
    let twin = rows.iter().any(|row| row.simulated_bps.is_some());
    let mut headings = vec![
        "program",
        ">loss",
        ">runs",
        ">goodput Mbit/s",
        ">of C(1-p)",
        ">sent/delivered",
        ">mean queue",
    ];
    if left {
        headings.push(">left to the other");
    }
    if simulated_left {
        headings.push(">left, simulated");
    }
    if twin {
        headings.extend([">simulated Mbit/s", ">real/simulated"]);
    }
    let mut table = TextTable::new(headings);
    for row in rows {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let mut cells = vec![
            row.program.clone(),
            format!("{} %", row.loss * 100.0),
            match row.unusable {
                0 => row.runs_in_words(),
                n => format!("{} ({n} unusable)", row.runs_in_words()),
            },
            or_dash(row.goodput_bps.map(|goodput| goodput.shown(1e-6, 3))),
            or_dash(row.share.map(|share| share.shown(1.0, 3))),
            or_dash(row.sent_per_delivered.map(|ratio| ratio.shown(1.0, 3))),
            or_dash(row.mean_queue_packets.map(|queue| queue.shown(1.0, 1))),
        ];
        if left {
            cells.push(or_dash(row.left.map(|left| left.shown(1.0, 3))));
        }
        if simulated_left {
            cells.push(or_dash(row.simulated_left.map(|left| left.shown(1.0, 3))));
        }
        if twin {
            cells.push(or_dash(row.simulated_bps.map(|goodput| goodput.shown(1e-6, 3))));
            cells.push(or_dash(row.ratio.map(|ratio| ratio.shown(1.0, 3))));
        }
        table.row(cells);
    }
    table
}
