//! `windward send`: files and folders to another host. Linux only.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration as StdDuration;

use clap::ValueEnum;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use windward_core::units::{Duration, Rate};
use windward_deploy::endpoint::DEFAULT_PROTOCOL;
use windward_deploy::error::shown;
use windward_deploy::transfer::figures::{Figures, PathFigures, eta};
use windward_deploy::transfer::send::{self, SendOptions, Target};
use windward_deploy::transfer::walk::{Choice, Links, Walk};

use crate::clock::Stopwatch;
use crate::deploy::{IdentityArgs, QlogArgs, TicketArgs, options};
use crate::failure::Failure;
use crate::{deploy, output, signals};

/// Send files and folders to `windward receive`
///
/// Ends with status 0 only when the receiver has everything on its disk. Only what differs is sent.
/// The sender reconnects by itself; after an interruption, the same command resumes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A folder is sent with its name; `.` stands for the contents of the current folder. A file with the
same size and time as at the receiver is left out.

Examples:
  windward send photos notes.txt --ticket-file ticket
  WINDWARD_TICKET=... windward send data --exclude '*.tmp' --limit 20Mbit
  windward send data -                                then paste the ticket
  windward send data TICKET                           others on this machine can read it
  windward send data ship.example:4460 --dry-run --json")]
pub(crate) struct Args {
    /// Files and folders, and at the end, unless --ticket-file or WINDWARD_TICKET has it, the
    /// ticket that `windward receive` printed, `-` to read it from standard input, or HOST:PORT of
    /// a known receiver
    #[arg(value_name = "PATH... [TICKET]", required = true)]
    words: Vec<OsString>,

    #[command(flatten)]
    ticket: TicketArgs,

    /// Congestion controller: a protocol of `windward list` that QUIC can run
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROTOCOL)]
    protocol: String,

    /// Largest rate, such as 20Mbit [default: unlimited]
    #[arg(long, value_name = "RATE")]
    limit: Option<Rate>,

    /// Leave out entries that match, as in .gitignore; may be given more than once
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<OsString>,

    /// Leave out entries that match a line of a file, as in .gitignore; may be given more than once
    #[arg(long, value_name = "FILE")]
    exclude_from: Vec<PathBuf>,

    /// Symbolic links: keep them, follow them, or skip them. A link out of its folder is never sent
    #[arg(long, value_name = "HOW", default_value = "keep")]
    links: LinksArg,

    /// Compare the contents of files also where size and time agree
    #[arg(long)]
    checksum: bool,

    /// List what would be sent, and change nothing at the receiver
    #[arg(long)]
    dry_run: bool,

    /// Give up after this time without progress [default: 10min, and 1min before the first answer]
    #[arg(long, value_name = "TIME")]
    patience: Option<Duration>,

    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    qlog: QlogArgs,

    #[command(flatten)]
    identity: IdentityArgs,
}

/// Time without progress after which a sender gives up.
const PATIENCE: StdDuration = StdDuration::from_secs(600);
/// The same before the first answer: the address may be wrong, or UDP blocked.
const FIRST_PATIENCE: StdDuration = StdDuration::from_secs(60);

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LinksArg {
    Keep,
    Follow,
    Skip,
}

/// Outcome of a transfer.
#[derive(Debug, Serialize)]
struct Outcome {
    complete: bool,
    dry_run: bool,
    #[serde(flatten)]
    entries: Entries,
    #[serde(flatten)]
    way: Way,
    /// Entries that a dry run would send.
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<Vec<String>>,
    error: Option<String>,
}

/// Entries by their fate.
#[derive(Debug, Serialize)]
struct Entries {
    files: u64,
    bytes: u64,
    stored: u64,
    same: u64,
    skipped: u64,
    skipped_links: u64,
    failed: u64,
}

/// The way to the receiver.
#[derive(Debug, Serialize)]
struct Way {
    sent_bytes: u64,
    seconds: f64,
    rate_bps: f64,
    loss: f64,
    queue_s: f64,
    cubic_bps: Option<f64>,
    reconnects: u64,
    path: PathFigures,
}

pub(crate) fn send(args: &Args, quiet: bool) -> Result<(), Failure> {
    output::claim_json(args.json)?;
    let (paths, ticket) = args.paths_and_ticket()?;
    let home = args.identity.config.home()?;
    let target = Target::parse(&ticket, &home)?;
    let walk = Walk::new(&paths, args.choice())?;
    let options = args.options(home)?;
    let identity = args.identity.identity()?;
    let figures = Arc::new(Figures::default());
    let stop = signals::flag();
    let since = Stopwatch::start();
    let mut line = Line::new(quiet);

    let result = std::thread::scope(|scope| {
        let work = scope.spawn(|| send::run(identity, &target, &walk, &options, &figures, stop));
        while !work.is_finished() {
            std::thread::sleep(StdDuration::from_millis(50));
            line.draw(&figures);
        }
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    line.end(&figures);

    let error = result.as_ref().err().map(ToString::to_string);
    let outcome = Outcome::new(&figures, args.dry_run, since.elapsed().as_secs_f64(), error);
    if args.json {
        output::print_json(&outcome)?;
    } else if result.is_ok() {
        output::print(&outcome.text())?;
    }
    result?;
    match outcome.entries.failed {
        0 => Ok(()),
        1 => Err(Failure::Failed("1 entry was not sent: see above".to_owned())),
        failed => Err(Failure::Failed(format!("{failed} entries were not sent: see above"))),
    }
}

impl Args {
    /// The paths, and the ticket or HOST:PORT.
    fn paths_and_ticket(&self) -> Result<(Vec<PathBuf>, String), Failure> {
        // Options may stand between them, so that the number of words is known only here.
        let last = self.words.last().map(OsString::as_os_str);
        let (ticket, is_last) = self.ticket.find(last, TicketArgs::is_peer)?.unwrap_or_default();
        let paths = &self.words[..self.words.len() - usize::from(is_last)];
        if paths.is_empty() {
            return Err(Failure::Input(
                "a path or a ticket is missing: windward send PATH... --ticket-file FILE, or windward send \
                 PATH... TICKET, with the last word that `windward receive` printed"
                    .to_owned(),
            ));
        }
        Ok((paths.iter().map(PathBuf::from).collect(), ticket))
    }

    /// The choice among the entries below the paths.
    fn choice(&self) -> Choice {
        let links = match self.links {
            LinksArg::Keep => Links::Keep,
            LinksArg::Follow => Links::Follow,
            LinksArg::Skip => Links::Skip,
        };
        Choice { links, exclude: self.exclude.clone(), exclude_from: self.exclude_from.clone() }
    }

    fn options(&self, home: PathBuf) -> Result<SendOptions, Failure> {
        let limit = self.limit.map(|rate| rate.as_bps() as f64 / 8.0);
        if limit.is_some_and(|limit| limit < 1.0) {
            return Err(Failure::Input("--limit: must be at least 8 bit/s".to_owned()));
        }
        let patience = self.patience.map(deploy::patience).transpose()?;
        Ok(SendOptions {
            dry_run: self.dry_run,
            checksum: self.checksum,
            limit,
            patience: patience.unwrap_or(PATIENCE),
            first_patience: patience.unwrap_or(FIRST_PATIENCE),
            home,
            endpoint: options(&self.protocol, &self.qlog)?,
        })
    }
}

/// Names of the entries that a dry run would send, each on one line.
fn names(figures: &Figures) -> Vec<String> {
    figures.take_names().iter().map(|name| shown(name.as_path())).collect()
}

impl Outcome {
    fn new(figures: &Figures, dry_run: bool, seconds: f64, error: Option<String>) -> Self {
        let (path, remarks) = (figures.path(), figures.take_remarks());
        Outcome {
            complete: error.is_none() && remarks.failed == 0,
            dry_run,
            entries: Entries {
                files: figures.files.get(),
                bytes: figures.size.get(),
                stored: figures.now.stored.get(),
                same: figures.now.same.get(),
                skipped: remarks.skipped,
                skipped_links: figures.now.skipped_links.get(),
                failed: remarks.failed,
            },
            way: Way {
                sent_bytes: figures.sent.get(),
                seconds,
                rate_bps: figures.sent.get() as f64 * 8.0 / seconds.max(1e-9),
                loss: path.loss(),
                queue_s: path.queue(),
                cubic_bps: path.cubic(),
                reconnects: figures.reconnects.get(),
                path,
            },
            names: dry_run.then(|| names(figures)),
            error,
        }
    }

    fn text(&self) -> String {
        let Outcome { entries, way, .. } = self;
        let bytes = |count: u64| format!("{}B", output::si(count as f64));
        let skipped = match entries.skipped_links {
            0 => format!("{} skipped", entries.skipped),
            1 => format!("{} skipped (1 link)", entries.skipped),
            links => format!("{} skipped ({links} links)", entries.skipped),
        };
        if let Some(names) = &self.names {
            let lines: String = names.iter().flat_map(|name| [name, "\n"]).collect();
            return format!(
                "{lines}dry run: {} to send ({}), {} there already, {skipped}",
                entries.stored,
                bytes(way.sent_bytes),
                entries.same,
            );
        }
        let cubic = way.cubic_bps.map_or_else(String::new, |cubic| {
            format!(", cubic about {}", output::rate(cubic.min(way.rate_bps)))
        });
        format!(
            "{} stored, {} there already, {skipped}: {} in {}, {}, loss {:.1} %{cubic}",
            entries.stored,
            entries.same,
            bytes(way.sent_bytes),
            output::seconds(way.seconds),
            output::rate(way.rate_bps),
            way.loss * 100.0
        )
    }
}

/// Time over which the live line averages its rate, seconds.
const SPAN: f64 = 5.0;
/// Remarks that are remembered, so that a new connection does not repeat them.
const REMEMBERED: usize = 10_000;

/// The line on a terminal that shows a transfer while it runs, and remarks above it.
struct Line {
    bar: ProgressBar,
    quiet: bool,
    since: Stopwatch,
    /// Times and bytes sent, over the span.
    sent: std::collections::VecDeque<(f64, u64)>,
    told: HashSet<String>,
}

impl Line {
    fn new(quiet: bool) -> Self {
        let target =
            if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(1000), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        Line {
            bar,
            quiet,
            since: Stopwatch::start(),
            sent: Default::default(),
            told: HashSet::new(),
        }
    }

    fn draw(&mut self, figures: &Figures) {
        self.tell(figures);
        if self.bar.is_hidden() {
            return;
        }
        let now = self.since.elapsed().as_secs_f64();
        self.sent.push_back((now, figures.sent.get()));
        while self.sent.front().is_some_and(|(at, _)| now - at > SPAN) {
            self.sent.pop_front();
        }
        let rate = match (self.sent.front(), self.sent.back()) {
            (Some((from, first)), Some((to, last))) if to > from => {
                (last - first) as f64 * 8.0 / (to - from)
            }
            _ => 0.0,
        };
        let (done, size, path) = (figures.now.done.get(), figures.size.get(), figures.path());
        let is_counted = figures.is_counted.load(Ordering::Relaxed);
        let left = if is_counted { eta(size.saturating_sub(done), rate) } else { None };
        let left = left.map_or_else(String::new, |left| format!("  ETA {:#}", HumanDuration(left)));
        let cubic = path.cubic().map_or_else(String::new, |cubic| {
            format!("  cubic about {}", output::rate(cubic.min(rate)))
        });
        self.bar.set_position((done as f64 / size.max(1) as f64 * 1000.0) as u64);
        self.bar.set_message(format!(
            "{}B of {}B  {}  loss {:.1} %  queue {}{left}{cubic}",
            output::si(done as f64),
            output::si(size as f64),
            output::rate(rate),
            path.loss() * 100.0,
            output::seconds(path.queue()),
        ));
    }

    fn tell(&mut self, figures: &Figures) {
        let said = figures.take_said().into_iter().map(|text| (text, false));
        for (text, is_failure) in said.chain(figures.take_remarks().pending) {
            let is_new = self.told.len() < REMEMBERED && self.told.insert(text.clone());
            if is_new && (is_failure || !self.quiet) {
                self.bar.suspend(|| output::note(&text));
            }
        }
    }

    fn end(&mut self, figures: &Figures) {
        self.tell(figures);
        self.bar.finish_and_clear();
    }
}
