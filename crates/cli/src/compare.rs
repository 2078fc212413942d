//! `windward compare`: programs side by side on one emulated link.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;

use serde::Serialize;
use windward_core::units::{Duration, Probability, Time};
use windward_experiments::comparison::{Beside, Comparison, Keeper, Measured, Row, Run};
use windward_experiments::statistics::SINGLE;
use windward_net::perf::Plan;
use windward_net::programs::{BUILTIN, Entry, Programs};
use windward_net::testbed;
use windward_net::trial::{self, Allowed, Emulated, Figures, Program, Window};
use windward_netns::sweep;
use windward_sim::input::{LARGEST_SETTINGS, read_text};
use windward_sim::scenario::Traffic;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::text::shell_word;

use crate::effort;
use crate::emulation::{KEPT, Source, record};
use crate::failure::Failure;
use crate::output::{self, Table};
use crate::progress::Progress;
use crate::replay;
use crate::scenario_args::parse_change;
use crate::shell::{Link, OPTIONS, SKELETON};
use crate::signals;

/// Measure programs side by side on one emulated link: the kernel's TCP, the protocols of this
/// program, and whatever a table names
///
/// Each of them sends from the far end for some seconds, alone and beside a competing flow, at each loss
/// rate and with each seed. All is measured at the link, so by one ruler.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windward compare --rate 10mbit --delay 20ms --queue 100p --loss 0,1%,5% --runs 5
  windward compare --rate 10mbit --delay 20ms --programs upwind,linux-bbr --simulate --out target/compare
  windward compare satellite.toml --programs upwind,linux-cubic --table mine.toml")]
pub(crate) struct Args {
    /// The scenario, a TOML file, instead of the options for a link
    ///
    /// Programs are where the flow with protocol = "outside:port" ends. A dumbbell or a parking lot
    /// without one gets one.
    #[arg(value_name = "SCENARIO", conflicts_with = "Link")]
    file: Option<PathBuf>,

    #[command(flatten)]
    link: Link,

    /// Packets on the way of the data are lost with these probabilities, such as 0,1%,5%
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_loss)]
    loss: Vec<f64>,

    /// Of a SCENARIO with links of its own names: the link that --loss and --routers are about
    #[arg(long = "link", value_name = "NAME", requires = "file")]
    link_name: Option<String>,

    /// Give the link what routers each program's protocol asks for
    #[arg(long)]
    routers: bool,

    /// Change a value of the scenario; may be given again
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_change)]
    set: Vec<(String, String)>,

    /// Programs: names of the table, rows of `windward list`, or `rows` for all of these
    /// [default: upwind, cubic and bbr, and all of the table that is installed]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    programs: Vec<String>,

    /// A table of more programs: see docs/compare.md
    #[arg(long, value_name = "FILE")]
    table: Vec<PathBuf>,

    /// Set a parameter of the endpoints of rows of `windward list`, and of what is simulated beside
    /// them; may be given again
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_change)]
    endpoint: Vec<(String, String)>,

    /// How long each run is measured, whole seconds
    #[arg(long, short, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    time: u32,

    /// What is left out before, whole seconds, from when a full packet has arrived
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_warmup)]
    warmup: u32,

    /// Runs of each program at each loss rate, with the seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,

    /// Seed of the first run
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Only alone, not beside a competing flow too
    #[arg(long)]
    alone: bool,

    /// The competing flow, a program [default: linux-cubic, or cubic where the kernel has none]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "alone")]
    rival: Option<String>,

    /// Do the same in virtual time beside it: the same scenario and seed, with a simulated flow
    #[arg(long)]
    simulate: bool,

    /// Runs at once: each takes part of a core, and what is late is unusable
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,

    /// One JSON object instead of a table
    #[arg(long)]
    json: bool,

    /// Write index.html with charts, programs.csv, runs.csv and compare.json into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Goes on with an interrupted comparison: runs that the folder of --out holds are not run again
    #[arg(long, requires = "out")]
    resume: bool,

    /// Keep a record of each emulation in this folder, and check that it replays: NAME.rec, for
    /// `windward replay`
    #[arg(long, value_name = "DIR")]
    records: Option<PathBuf>,

    /// Say which programs there are, and which of them can run here, and do nothing
    #[arg(long)]
    list: bool,
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

/// Rows that run if nobody says otherwise.
const ROWS: [&str; 3] = ["upwind", "cubic", "bbr"];
/// Stands for all rows.
const ALL_ROWS: &str = "rows";

pub(crate) fn compare(args: &Args, quiet: bool) -> Result<(), Failure> {
    let table = table(&args.table)?;
    if args.list {
        return list(&table);
    }
    let (entries, mut skipped) = chosen(args, &table)?;
    let rival = rival(args, &table)?;
    let all = || entries.iter().chain(rival.as_ref());
    // Other namespaces may not choose what the initial one does not allow them.
    let controls = all().filter_map(|entry| entry.congestion_control.as_deref());
    let controls: Vec<&str> = controls.collect::<BTreeSet<_>>().into_iter().collect();
    let allowed = Allowed::all(controls.iter().copied()).map_err(|error| {
        Failure::Failed(format!(
            "cannot let network namespaces choose {}: {error}, or leave the programs of \
             the kernel out (--programs upwind,cubic --rival cubic)",
            controls.join(" and ")
        ))
    })?;
    if !quiet {
        for (program, why) in &skipped {
            output::note(&format!("{program}: skipped, {why}"));
        }
    }
    if entries.is_empty() {
        return Err(Failure::Failed("none of these programs can run here".to_owned()));
    }
    let course = Course::new(args)?;
    if let Some(dir) = &args.records {
        fs::create_dir_all(dir)
            .map_err(|error| Failure::Input(format!("--records {}: {error}", dir.display())))?;
    }
    sweep()?;
    let loss_of_link = course.own_loss()?;
    let losses = if args.loss.is_empty() {
        vec![None]
    } else {
        args.loss.iter().map(|p| Some(*p)).collect()
    };
    let mut jobs = Vec::new();
    for seed in (args.seed..).take(args.runs.into()) {
        for &loss in &losses {
            for entry in &entries {
                jobs.push(Job { entry, loss, seed });
            }
        }
    }
    // What cannot be is said before anything runs.
    for job in jobs.iter().take(losses.len() * entries.len()) {
        course.check(args, job, rival.as_ref())?;
    }
    let mut runs: Vec<Option<Run>> = jobs.iter().map(|_| None).collect();
    let mut keeper = None;
    if let Some(dir) = &args.out {
        let key = course.key(args, &entries, rival.as_ref())?;
        let (opened, known) = Keeper::open(dir, &key, args.resume)?;
        keeper = Some(opened);
        for (number, run) in known {
            if let Some(place) = runs.get_mut(number as usize) {
                *place = Some(run);
            }
        }
    }
    let work = Work { args, course: &course, rival: rival.as_ref() };
    let outcome = run_all(&work, &jobs, &mut runs, keeper.as_mut(), loss_of_link, quiet);
    drop(allowed);
    let runs: Vec<Run> = runs.into_iter().flatten().collect();
    skipped.dedup();
    if let Some(dir) = args.records.as_ref().filter(|_| !quiet) {
        let dir = dir.display();
        output::note(&format!("{dir}: records, which replay with the fingerprints of their runs"));
    }
    let comparison = Comparison {
        link: course.words(args),
        window: format!(
            "Measured for {} s, {} s after the first full packet.",
            args.time, args.warmup
        ),
        rate_bps: course.rate_bps()?,
        rival: rival.as_ref().map(|rival| format!("{} ({})", rival.name, rival.about)),
        planned: jobs.len(),
        runs,
        skipped,
    };
    let record =
        serde_json::to_string_pretty(&Record { rows: comparison.rows(), comparison: &comparison })
            .map_err(|error| {
                Failure::Failed(format!("cannot write the result as JSON: {error}"))
            })?;
    let print = || match args.json {
        true => output::print(&record),
        false => output::print(&text(&comparison)),
    };
    if let Err(failure) = outcome {
        drop(keeper);
        if !comparison.runs.is_empty() {
            print()?;
        }
        if let Some(dir) = &args.out {
            effort::tell_of_resume(quiet, dir);
        }
        return Err(failure);
    }
    if let Some(keeper) = keeper {
        let about = effort::about();
        keeper.finish(|out| {
            out.write("index.html", |file| {
                file.write_all(windward_report::page_of_comparison(&comparison, &about).as_bytes())
            })?;
            out.write("programs.csv", |file| comparison.write_rows(file))?;
            out.write("runs.csv", |file| comparison.write_runs(file))?;
            out.write("compare.json", |file| file.write_all(record.as_bytes()))?;
            Ok(())
        })?;
    }
    print()
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Record<'a> {
    rows: Vec<Row>,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

/// The table that comes along, under those of files.
fn table(files: &[PathBuf]) -> Result<Programs, Failure> {
    let mut table = Programs::parse("programs.toml", BUILTIN).map_err(Failure::Failed)?;
    for file in files {
        let name = file.display().to_string();
        let text = read_text(file, LARGEST_SETTINGS)
            .map_err(|error| Failure::Input(format!("cannot read {name}: {error}")))?;
        table = table.under(Programs::parse(&name, &text).map_err(Failure::Input)?);
    }
    Ok(table)
}

fn list(table: &Programs) -> Result<(), Failure> {
    let mut text = Table::new(["program", "here", "what"]);
    for entry in table.entries() {
        let here = entry.missing().unwrap_or_else(|| "yes".to_owned());
        text.row([entry.name.clone(), here, entry.about.clone()]);
    }
    output::print(&(text.text() + "and every row of `windward list`\n"))
}

fn find(table: &Programs, name: &str) -> Result<Entry, Failure> {
    table.find(name).ok_or_else(|| {
        let all: Vec<&str> = table.entries().iter().map(|entry| &*entry.name).collect();
        Failure::Input(format!(
            "no program is called `{name}`: there are {}, and the rows of `windward list`",
            all.join(", ")
        ))
    })
}

/// A program, and why it cannot run here.
type Skipped = (String, String);

/// The programs that are asked for, and those of them that cannot run here.
fn chosen(args: &Args, table: &Programs) -> Result<(Vec<Entry>, Vec<Skipped>), Failure> {
    let mut names: Vec<&str> = Vec::new();
    for name in &args.programs {
        match name.trim() {
            ALL_ROWS => {
                names.extend(windward_core::protocols::PROTOCOLS.iter().map(|row| row.name));
            }
            name => names.push(name),
        }
    }
    if names.is_empty() {
        names.extend(ROWS);
        names.extend(table.entries().iter().map(|entry| &*entry.name));
    }
    // What was named by itself has to be there.
    let is_named = |name: &str| args.programs.iter().any(|named| named.trim() == name);
    let (mut entries, mut skipped, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for (number, name) in names.iter().enumerate() {
        if names[..number].contains(name) {
            continue;
        }
        let entry = find(table, name)?;
        match entry.missing() {
            Some(why) if is_named(name) => wrong.push(format!("--programs {name}: {why}")),
            Some(why) => skipped.push((entry.name, why)),
            None => entries.push(entry),
        }
    }
    if !wrong.is_empty() {
        return Err(Failure::Failed(wrong.join("; ")));
    }
    Ok((entries, skipped))
}

fn rival(args: &Args, table: &Programs) -> Result<Option<Entry>, Failure> {
    if args.alone {
        return Ok(None);
    }
    if let Some(name) = &args.rival {
        let entry = find(table, name)?;
        return match entry.missing() {
            Some(why) => Err(Failure::Failed(format!("--rival {name}: {why}"))),
            None => Ok(Some(entry)),
        };
    }
    let of_kernel = table.find("linux-cubic").filter(|entry| entry.missing().is_none());
    Ok(of_kernel.or_else(|| table.find("cubic")))
}

/// The scenario that all of them run over.
struct Course {
    source: Source,
    /// The keys of the link that --loss and --routers are about begin with this, if anything says so.
    place: Option<String>,
    /// A full packet of the port, bytes of IP.
    mtu: u32,
    /// The group of the port, and the nodes between which it is, where there are any.
    group: String,
    nodes: Option<[String; 2]>,
}

impl Course {
    fn new(args: &Args) -> Result<Self, Failure> {
        let mut source = match &args.file {
            None => Source {
                name: OPTIONS.to_owned(),
                text: SKELETON.to_owned(),
                changes: args.link.changes(None)?,
                is_open: true,
            },
            Some(file) => Source {
                name: ScenarioFile::name(file),
                text: ScenarioFile::text(file)?,
                changes: Vec::new(),
                is_open: true,
            },
        };
        source.changes.extend(args.set.iter().cloned());
        source.add_port()?;
        source.load()?.warn();
        let is_dumbbell = source.file()?.has("dumbbell");
        let place = match (&args.file, &args.link_name) {
            (_, Some(name)) => Some(format!("links.{name}")),
            (None, _) => Some("links.down".to_owned()),
            _ => is_dumbbell.then(|| "dumbbell.bottleneck".to_owned()),
        };
        if place.is_none() && (args.routers || !args.loss.is_empty()) {
            return Err(Failure::Input(format!(
                "{}: --loss and --routers are about one link: name it by --link NAME",
                source.name
            )));
        }
        let scenario = source.load()?.scenario;
        let ports: Vec<(usize, _)> = testbed::ports(&scenario).collect();
        let [(flow, _)] = ports[..] else {
            return Err(Failure::Input(format!(
                "{}: programs are compared at one port, and there are {}",
                source.name,
                ports.len()
            )));
        };
        let flow = &scenario.flows[flow];
        let group = scenario.groups[flow.group].clone();
        let mtu = match &flow.kind.traffic {
            Traffic::Stack { config, .. } => config.packet_size,
            _ => return Err(Failure::Failed("the port has no packet size".to_owned())),
        };
        Ok(Course { source, place, mtu, group, nodes: flow.kind.nodes.clone() })
    }

    /// The loss rate of the link where --loss says nothing.
    fn own_loss(&self) -> Result<f64, Failure> {
        let scenario = self.source.load()?.scenario;
        let port = testbed::ports(&scenario).next().map_or(0, |(flow, _)| flow);
        let link = scenario.flows[port].bottleneck;
        Ok(scenario.links[link].kind.loss_rate(1500))
    }

    fn rate_bps(&self) -> Result<f64, Failure> {
        let scenario = self.source.load()?.scenario;
        let port = testbed::ports(&scenario).next().map_or(0, |(flow, _)| flow);
        let link = scenario.flows[port].bottleneck;
        Ok(scenario.links[link].kind.rate.mean().bytes_per_s() * 8.0)
    }

    /// Everything that decides what the runs measure: a folder goes on with the same only.
    fn key(
        &self,
        args: &Args,
        entries: &[Entry],
        rival: Option<&Entry>,
    ) -> Result<String, Failure> {
        let Source { text, changes, .. } = &self.source;
        let traces = self.source.load()?.traces;
        let Args { loss, link_name, routers, endpoint, time, warmup, runs, seed, .. } = args;
        let Args { simulate, records, .. } = args;
        let link = (text, changes, traces, loss, link_name, routers);
        let each = (time, warmup, runs, seed, simulate, records);
        Ok(format!("{:?}", (link, each, endpoint, entries, rival)))
    }

    fn words(&self, args: &Args) -> String {
        let words =
            |text: &Option<String>, what: &str| text.as_ref().map(|text| format!("{what} {text}"));
        if args.file.is_some() {
            return format!("Scenario {}.", self.source.name);
        }
        let link = &args.link;
        let all = [
            words(&link.rate, "rate"),
            words(&link.delay, "delay each way"),
            words(&link.queue, "queue"),
            words(&link.aqm, "AQM"),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        format!("An emulated link: {}.", all.join(", "))
    }

    /// The scenario of one run.
    fn source(&self, args: &Args, job: &Job<'_>, with_rival: bool) -> Result<Source, Failure> {
        let mut source = self.source.clone();
        let mut set = |key: String, value: String| source.changes.push((key, value));
        set("seed".to_owned(), job.seed.to_string());
        if let Some(place) = &self.place {
            if let Some(loss) = job.loss {
                set(format!("{place}.loss"), loss.to_string());
            }
            let twin = job.entry.twin.as_ref().filter(|_| args.routers);
            if let Some(twin) = twin {
                let plan = twin.plan(&[]).map_err(Failure::Input)?;
                set(format!("{place}.router"), plan.protocol.router.name().to_owned());
            }
        }
        if with_rival {
            let nodes = self
                .nodes
                .as_ref()
                .map_or_else(String::new, |[from, to]| format!(", from = '{from}', to = '{to}'"));
            let name = windward_net::port::NAME;
            let flow =
                format!("{{ group = 'rival-of-{}', protocol = '{name}'{nodes} }}", self.group);
            set("flows.+".to_owned(), flow);
        }
        Ok(source)
    }

    /// Everything that can be wrong with a run, before it begins.
    fn check(&self, args: &Args, job: &Job<'_>, rival: Option<&Entry>) -> Result<(), Failure> {
        for with_rival in [false, true] {
            if !with_rival || rival.is_some() {
                let source = windward_net::port::Ports::new();
                let stacks = crate::stacks().with(source);
                self.source(args, job, with_rival)?.file()?.with_stacks(&stacks).build()?;
            }
        }
        if let Some(twin) = &job.entry.twin {
            twin.plan(&job.entry.endpoint(self.mtu, &args.endpoint))
                .map_err(|wrong| Failure::Input(format!("{}: {wrong}", job.entry.name)))?;
        }
        Ok(())
    }
}

/// One run of a program, alone and beside another.
#[derive(Clone, Copy)]
struct Job<'a> {
    entry: &'a Entry,
    loss: Option<f64>,
    seed: u64,
}

struct Work<'a> {
    args: &'a Args,
    course: &'a Course,
    rival: Option<&'a Entry>,
}

/// Does the jobs without a run, as many at once as asked for, and keeps each run when it ends. After a
/// failure those under way are waited for, and no more begin.
fn run_all(
    work: &Work<'_>,
    jobs: &[Job<'_>],
    runs: &mut [Option<Run>],
    mut keeper: Option<&mut Keeper>,
    loss_of_link: f64,
    quiet: bool,
) -> Result<(), Failure> {
    let progress = Progress::new(quiet);
    let missing: Vec<usize> = (0..jobs.len()).filter(|job| runs[*job].is_none()).collect();
    let known = jobs.len() - missing.len();
    let at_once = usize::from(work.args.jobs).min(missing.len());
    let next = Mutex::new(missing.into_iter());
    let (tell, told) = channel::<(usize, Result<Option<Run>, Failure>)>();
    let mut failure = None;
    let mut done = known;
    thread::scope(|scope| {
        for _ in 0..at_once {
            let (tell, next) = (tell.clone(), &next);
            scope.spawn(move || worker(work, jobs, loss_of_link, next, &tell));
        }
        drop(tell);
        loop {
            let failed = match told.recv_timeout(std::time::Duration::from_millis(200)) {
                Ok((job, Ok(Some(run)))) => {
                    let kept = keeper.as_mut().map(|keeper| keeper.keep(number(job), &run));
                    done += 1;
                    runs[job] = Some(run);
                    kept.transpose().err().map(Failure::from)
                }
                Ok((_, Ok(None))) | Err(RecvTimeoutError::Timeout) => None,
                Ok((_, Err(failure))) => Some(failure),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if let Some(failed) = failed {
                next.lock().expect("nobody panics with it").nth(jobs.len());
                failure.get_or_insert(failed);
            }
            let message = format!("{done} of {} runs", jobs.len());
            progress.set(done as f64 / jobs.len() as f64, &message);
        }
    });
    match failure {
        Some(failure) => Err(failure),
        None if done < jobs.len() => Err(Failure::Interrupted),
        None => Ok(()),
    }
}

/// The number by which a run of that job is kept.
fn number(job: usize) -> u32 {
    u32::try_from(job).unwrap_or(u32::MAX)
}

fn worker(
    work: &Work<'_>,
    jobs: &[Job<'_>],
    loss_of_link: f64,
    next: &Mutex<std::vec::IntoIter<usize>>,
    tell: &Sender<(usize, Result<Option<Run>, Failure>)>,
) {
    while signals::check().is_ok() {
        let job = next.lock().expect("nobody panics with it").next();
        let Some(job) = job else { return };
        let run = work.run(&jobs[job], loss_of_link);
        if tell.send((job, run)).is_err() {
            return;
        }
    }
}

/// What became of an emulation: figures, or why there are none that may be used.
enum Tried {
    Good(Box<Emulated>),
    Bad(String),
    Stopped,
}

impl Work<'_> {
    fn window(&self) -> Window {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        Window { warmup: seconds(self.args.warmup), time: seconds(self.args.time) }
    }

    fn program(&self, entry: &Entry) -> Program {
        let Args { warmup, time, .. } = self.args;
        let words = self
            .endpoint(entry)
            .into_iter()
            .map(|(key, value)| format!("--set {}", shell_word(&format!("{key}={value}"))));
        let words: Vec<String> = words.collect();
        entry.program(*warmup, *time, &own_name(), &words.join(" "))
    }

    fn endpoint(&self, entry: &Entry) -> Vec<(String, String)> {
        entry.endpoint(self.course.mtu, &self.args.endpoint)
    }

    fn plan(&self, entry: &Entry) -> Result<Option<Plan>, Failure> {
        let plan = entry.twin.as_ref().map(|twin| twin.plan(&self.endpoint(entry)));
        plan.transpose().map_err(Failure::Input)
    }

    /// One job; `None` if it was interrupted.
    fn run(&self, job: &Job<'_>, loss_of_link: f64) -> Result<Option<Run>, Failure> {
        let mut run = Run {
            program: job.entry.name.clone(),
            loss: job.loss.unwrap_or(loss_of_link),
            seed: job.seed,
            alone: None,
            simulated: None,
            beside: None,
            simulated_beside: None,
            late_share: 0.0,
            programs_waited_share: None,
            unusable: None,
        };
        let mut late = |emulated: &Emulated| {
            run.late_share = run.late_share.max(emulated.clock.late_share);
            run.programs_waited_share = emulated.clock.programs_waited_share;
        };
        let mut began = None;
        match self.emulate(job, None)? {
            Tried::Stopped => return Ok(None),
            Tried::Bad(why) => run.unusable = Some(why),
            Tried::Good(emulated) => {
                late(&emulated);
                began = Some(emulated.figures.began);
                match self.goodput(job.entry, &emulated) {
                    Err(why) => run.unusable = Some(why),
                    Ok(reported) => run.alone = Some(measured(&emulated.figures, reported)),
                }
            }
        }
        if self.args.simulate {
            match self.simulate(job, None, began)? {
                Some(figures) => {
                    let unique = figures.flows[0].unique_bps;
                    run.simulated = Some(measured(&figures, Some(unique)));
                }
                None if signals::check().is_err() => return Ok(None),
                None => {}
            }
        }
        if let Some(rival) = self.rival {
            let mut began = None;
            match self.emulate(job, Some(rival))? {
                Tried::Stopped => return Ok(None),
                Tried::Bad(why) => {
                    let why = format!("beside {}: {why}", rival.name);
                    run.unusable =
                        Some(run.unusable.map_or(why.clone(), |own| format!("{own}; {why}")));
                }
                Tried::Good(emulated) => {
                    run.late_share = run.late_share.max(emulated.clock.late_share);
                    let waited = emulated.clock.programs_waited_share;
                    run.programs_waited_share =
                        waited.into_iter().chain(run.programs_waited_share).reduce(f64::max);
                    run.beside = Some(beside(&emulated.figures));
                    began = Some(emulated.figures.began);
                }
            }
            if self.args.simulate {
                match self.simulate(job, Some(rival), began)? {
                    Some(figures) => run.simulated_beside = Some(beside(&figures)),
                    None if signals::check().is_err() => return Ok(None),
                    None => {}
                }
            }
        }
        // Ctrl-C in a terminal ends the programs too: a run without its figures is then not done.
        let is_cut = run.unusable.is_some() && signals::check().is_err();
        Ok(Some(run).filter(|_| !is_cut))
    }

    /// Once, and once more if the machine was too slow.
    fn emulate(&self, job: &Job<'_>, rival: Option<&Entry>) -> Result<Tried, Failure> {
        let source = self.course.source(self.args, job, rival.is_some())?;
        let file = source.file()?;
        let entries = [Some(job.entry), rival];
        let programs: Vec<Program> =
            entries.into_iter().flatten().map(|entry| self.program(entry)).collect();
        let mut why = String::new();
        for _ in 0..2 {
            let (stacks, window) = (crate::stacks(), self.window());
            let path = self.record_of(job, rival);
            let begin =
                |path: &PathBuf| record("--records", path, source.header(&source.load()?, KEPT));
            let recorder = path.as_ref().map(begin).transpose()?;
            match trial::emulate(&file, &stacks, &programs, window, recorder, signals::flag()) {
                Ok(None) => return Ok(Tried::Stopped),
                Ok(Some(emulated)) if emulated.clock.usable => {
                    if let Some(path) = path
                        && replay::again(&path)?.fingerprint != emulated.fingerprint
                    {
                        return Err(Failure::Failed(format!(
                            "{} replays to another fingerprint than that of its run",
                            path.display()
                        )));
                    }
                    return Ok(Tried::Good(Box::new(emulated)));
                }
                Ok(Some(emulated)) => {
                    why = format!("too slow twice: {}", emulated.clock.faults().join(", "));
                }
                Err(error @ (trial::Error::Ended { .. } | trial::Error::Nothing(_))) => {
                    return Ok(Tried::Bad(error.to_string()));
                }
                Err(error) => return Err(Failure::Failed(error.to_string())),
            }
        }
        Ok(Tried::Bad(why))
    }

    /// Where to keep the record of an emulation, if anybody wants it.
    fn record_of(&self, job: &Job<'_>, rival: Option<&Entry>) -> Option<PathBuf> {
        let loss = job.loss.map_or_else(String::new, |loss| format!("-{loss}"));
        let rival = rival.map_or("", |_| "-beside");
        let name = format!("{}{loss}-{}{rival}.rec", job.entry.name, job.seed);
        self.args.records.as_ref().map(|dir| dir.join(name))
    }

    /// What the program says itself, where that is of the same seconds.
    fn goodput(&self, entry: &Entry, emulated: &Emulated) -> Result<Option<f64>, String> {
        if !entry.is_asked(self.args.warmup) {
            return Ok(None);
        }
        entry.goodput_bps(&emulated.outputs[0])
    }

    /// The same in virtual time, from then on, if it is known what each of them would be there.
    fn simulate(
        &self,
        job: &Job<'_>,
        rival: Option<&Entry>,
        began: Option<Time>,
    ) -> Result<Option<Figures>, Failure> {
        let mut plans = Vec::new();
        for entry in [Some(job.entry), rival].into_iter().flatten() {
            match self.plan(entry)? {
                Some(plan) => plans.push(plan),
                None => return Ok(None),
            }
        }
        let file = self.course.source(self.args, job, rival.is_some())?.file()?;
        let failed = |error: trial::Error| Failure::Failed(error.to_string());
        let (scenario, flows) = trial::twin(&file, &crate::stacks(), &plans).map_err(failed)?;
        Ok(trial::simulate(&scenario, &flows, self.window(), began, signals::flag()))
    }
}

/// What the first flow and the second got.
fn beside(figures: &Figures) -> Beside {
    let [own_bps, rival_bps] = [0, 1].map(|flow| figures.flows[flow].arrived_bps);
    Beside { own_bps, rival_bps }
}

fn measured(figures: &Figures, reported: Option<f64>) -> Measured {
    let flow = figures.flows[0];
    Measured {
        goodput_bps: reported.unwrap_or(flow.unique_bps),
        arrived_bps: flow.arrived_bps,
        sent_per_delivered: figures.sent_per_delivered(),
        mean_queue_packets: figures.mean_queue_packets,
        packet_size: figures.packet_size,
        counted_by_program: reported.is_some(),
    }
}

/// This program, as a word of a shell.
fn own_name() -> String {
    let own = std::env::current_exe().ok().filter(|path| {
        // Elsewhere it is an interpreter that has loaded this as a library.
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("windward"))
    });
    own.map_or_else(|| "windward".to_owned(), |path| shell_word(&path.to_string_lossy()))
}

fn text(comparison: &Comparison) -> String {
    let rows = comparison.rows();
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
    let mut table = Table::new(headings);
    for row in &rows {
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
    let mut text = format!("{}\n{}\n", comparison.link, comparison.window);
    if comparison.runs.len() < comparison.planned {
        text += &format!("Incomplete: {} of {} runs.\n", comparison.runs.len(), comparison.planned);
    }
    text += &format!("\n{}", table.text());
    if rows.iter().any(Row::has_single) {
        text += &format!("\n{SINGLE}\n");
    }
    let unlike = comparison.unlike_packets();
    if !unlike.is_empty() {
        let sizes = unlike.iter().map(|(program, size)| format!("{program} {size}"));
        let sizes: Vec<String> = sizes.collect();
        text += &format!("\nUnlike packets, bytes of IP: {}.\n", sizes.join(", "));
    }
    if let Some(rival) = &comparison.rival {
        text += &format!("\nThe other is {rival}.\n");
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
