//! Programs side by side on one emulated link: which of them run, against which rival, in which
//! order, how often a run is tried again, and whether its record replays.
//!
//! [`Campaign::new`] checks everything before the first run; [`Campaign::run`] carries out the
//! missing runs. The caller computes statistics over the runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use windward_core::protocols::PROTOCOLS;
use windward_core::units::{Duration, Time};
use windward_netns::sweep;
use windward_sim::comparison::{Beside, Measured, Run};
use windward_sim::input::{LARGEST_SETTINGS, read_text};
use windward_sim::scenario::Traffic;
use windward_sim::scratch::Scratch;
use windward_sim::stack::Stacks;
use windward_sim::text::shell_word;

use crate::error::Error;
use crate::link::{DOWN, Link};
use crate::perf::Plan;
use crate::port::NAME;
use crate::programs::{BUILTIN, Entry, Kernel, Programs, Words};
use crate::source::{KEPT, Recorded, Source};
use crate::testbed;
use crate::trial::{self, Allowed, Emulated, Program, TrialOutcome, Window};

/// Rows of the table of protocols that run if no programs are named.
const ROWS: [&str; 3] = ["upwind", "cubic", "bbr"];
/// Stands for all rows.
const ALL_ROWS: &str = "rows";
/// Name of the rival if none is given, and of the one in its place where the kernel has none.
const RIVALS: [&str; 2] = ["linux-cubic", "cubic"];

/// The built-in table of programs under those of `files`, of which a later one takes precedence.
pub fn programs(files: &[PathBuf]) -> Result<Programs, Error> {
    let mut table = Programs::parse("programs.toml", BUILTIN).map_err(Error::Failed)?;
    for file in files {
        let name = file.display().to_string();
        let text = read_text(file, LARGEST_SETTINGS)
            .map_err(|error| Error::Input(format!("cannot read {name}: {error}")))?;
        table = table.under(Programs::parse(&name, &text).map_err(Error::Input)?);
    }
    Ok(table)
}

/// Network that programs are compared on: a scenario with one port.
#[derive(Debug)]
pub struct Network {
    /// The scenario. A dumbbell or a parking lot without a port gets one.
    pub source: Source,
    /// Name of the link that loss rates and routers apply to, if the scenario defines its own
    /// links.
    pub link: Option<String>,
    /// The network in words, if not the name of the scenario.
    pub words: Option<String>,
}

impl Network {
    /// One link.
    pub fn of_link(link: &Link, stacks: Stacks) -> Result<Self, Error> {
        let (source, words) = (link.source(stacks)?, Some(link.words()));
        Ok(Network { source, link: Some(DOWN.to_owned()), words })
    }
}

/// Conditions of the runs.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// Loss rates of the link; empty for the rate that it has.
    pub losses: Vec<f64>,
    /// True if the link gets the router that the protocol of a program needs.
    pub routers: bool,
    /// Keys and values for the endpoints of rows, and of flows that are simulated with them.
    pub endpoint: Vec<(String, String)>,
    /// Seconds that are measured.
    pub time: u32,
    /// Seconds that are left out before, from the arrival of a full packet on.
    pub warmup: u32,
}

/// Size and by-products of a campaign.
#[derive(Debug, Clone)]
pub struct Effort {
    /// Runs of each program at each loss rate.
    pub runs: u16,
    /// Seed of the first run; the next ones follow.
    pub seed: u64,
    /// Number of runs at once.
    pub jobs: u16,
    /// True if each run is also done in virtual time.
    pub simulate: bool,
    /// Folder for a record of each emulation, which is replayed to check it.
    pub records: Option<PathBuf>,
    /// Words by which a shell starts this program.
    pub windward: String,
}

/// Choice of the rival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rival {
    /// None: programs run alone only.
    None,
    /// CUBIC of the kernel, or Windward's where the kernel has none.
    Default,
    /// The program of this name.
    Named(String),
}

/// The programs of a campaign.
#[derive(Debug)]
pub struct Cast {
    entries: Vec<Entry>,
    rival: Option<Entry>,
    kernel: Option<Kernel>,
    /// Programs that cannot run here, each with the reason.
    pub skipped: Vec<(String, String)>,
}

impl Cast {
    /// Chooses the programs of these names, or some rows and the whole table if there are none. A
    /// program that is named must be able to run here; others are skipped.
    ///
    /// # Errors
    /// If a name is unknown, a program that is named cannot run here, or no program can.
    pub fn choose(table: &Programs, names: &[String], rival: &Rival) -> Result<Self, Error> {
        let mut all: Vec<&str> = Vec::new();
        for name in names {
            match name.trim() {
                ALL_ROWS => all.extend(PROTOCOLS.iter().map(|row| row.name)),
                name => all.push(name),
            }
        }
        if all.is_empty() {
            all.extend(ROWS);
            let own = table.entries().iter().filter(|entry| !entry.is_for_rows());
            all.extend(own.map(|entry| &*entry.name));
        }
        let is_named = |name: &str| names.iter().any(|named| named.trim() == name);
        let mut cast =
            Cast { entries: Vec::new(), rival: None, kernel: table.kernel(), skipped: Vec::new() };
        let mut wrong = Vec::new();
        for (number, name) in all.iter().enumerate() {
            if all[..number].contains(name) {
                continue;
            }
            let entry = find(table, name)?;
            match table.missing(&entry) {
                Some(why) if is_named(name) => wrong.push(format!("program {name}: {why}")),
                Some(why) => cast.skipped.push((entry.name, why)),
                None => cast.entries.push(entry),
            }
        }
        if !wrong.is_empty() {
            return Err(Error::Failed(wrong.join("; ")));
        }
        if cast.entries.is_empty() {
            return Err(Error::Failed("none of these programs can run here".to_owned()));
        }
        cast.rival = match rival {
            Rival::None => None,
            Rival::Default => {
                let [kernel, own] = RIVALS.map(|name| table.find(name));
                kernel.filter(|entry| table.missing(entry).is_none()).or(own)
            }
            Rival::Named(name) => {
                let entry = find(table, name)?;
                if let Some(why) = table.missing(&entry) {
                    return Err(Error::Failed(format!("rival {name}: {why}")));
                }
                Some(entry)
            }
        };
        cast.check_rows()?;
        Ok(cast)
    }

    /// Checks that the rival and each program can be in the kernel together.
    fn check_rows(&self) -> Result<(), Error> {
        let Some((rival, row)) =
            self.rival.as_ref().and_then(|r| Some((r, r.kernel_row.as_ref()?)))
        else {
            return Ok(());
        };
        let has_another = |entry: &&Entry| entry.kernel_row.as_ref().is_some_and(|own| own != row);
        match self.entries.iter().find(has_another) {
            Some(entry) => Err(Error::Input(format!(
                "{} cannot compete with {}: the kernel has one row of Windward at a time; take \
                 another rival",
                entry.name, rival.name
            ))),
            None => Ok(()),
        }
    }

    /// Lets network namespaces choose the congestion controls of the kernel that programs need:
    /// they may not choose one that the initial namespace does not allow.
    fn allow(&self) -> Result<Allowed, Error> {
        let all = self.entries.iter().chain(&self.rival);
        // Rows of Windward are not there yet, and need no leave.
        let controls = all.filter_map(|entry| entry.congestion_control.as_deref());
        let controls: Vec<&str> = controls.collect::<BTreeSet<_>>().into_iter().collect();
        Allowed::all(controls.iter().copied()).map_err(|error| {
            Error::Failed(format!(
                "cannot let network namespaces choose {}: {error}, or compare no programs of the \
                 kernel (programs upwind,cubic, rival cubic)",
                controls.join(" and ")
            ))
        })
    }
}

fn find(table: &Programs, name: &str) -> Result<Entry, Error> {
    table.find(name).ok_or_else(|| {
        let all: Vec<&str> = table.entries().iter().map(|entry| &*entry.name).collect();
        Error::Input(format!(
            "no program is called `{name}`; the programs are {}, and the rows of `windward list`",
            all.join(", ")
        ))
    })
}

/// The network with one port, as all programs find it.
#[derive(Debug)]
struct Course {
    source: Source,
    /// The network in words.
    words: String,
    /// Beginning of the keys of the link that loss rates and routers apply to.
    place: Option<String>,
    /// Size of a full packet of the port, bytes of IP.
    mtu: u32,
    /// Group of the port, and the nodes between which it is, where there are any.
    group: String,
    nodes: Option<[String; 2]>,
    warnings: Vec<String>,
    traces: u64,
    /// Mean rate of the bottleneck, and its loss rate where no other is asked for.
    rate_bps: f64,
    loss: f64,
}

impl Course {
    fn new(network: Network) -> Result<Self, Error> {
        let Network { mut source, link, words } = network;
        let words = words.unwrap_or_else(|| format!("Scenario {}.", source.name));
        source.add_port()?;
        let place = match link {
            Some(name) => Some(format!("links.{name}")),
            None => source.file()?.has("dumbbell").then(|| "dumbbell.bottleneck".to_owned()),
        };
        let loaded = source.load()?;
        let scenario = &loaded.scenario;
        let ports: Vec<(usize, _)> = testbed::ports(scenario).collect();
        let [(flow, _)] = ports[..] else {
            return Err(Error::Input(format!(
                "{}: a comparison needs exactly one port, but the scenario has {}",
                source.name,
                ports.len()
            )));
        };
        let flow = &scenario.flows[flow];
        let mtu = match &flow.kind.traffic {
            Traffic::Stack { config, .. } => config.packet_size,
            _ => return Err(Error::Failed("the port has no packet size".to_owned())),
        };
        let link = &scenario.links[flow.bottleneck].kind;
        Ok(Course {
            words,
            place,
            mtu,
            group: scenario.groups[flow.group].clone(),
            nodes: flow.kind.nodes.clone(),
            warnings: scenario.warnings.clone(),
            traces: loaded.traces,
            rate_bps: link.rate.mean().bytes_per_s() * 8.0,
            loss: link.loss_rate(1500),
            source,
        })
    }
}

/// A run of a program.
#[derive(Debug, Clone, Copy)]
struct Job {
    /// Index of the program.
    program: usize,
    loss: Option<f64>,
    seed: u64,
}

/// Progress of a campaign.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Runs that are done.
    pub done: usize,
    /// Runs that were asked for.
    pub planned: usize,
    /// A run that has just ended, with its number.
    pub ended: Option<(u32, &'a Run)>,
}

/// A comparison of programs.
#[derive(Debug)]
pub struct Campaign {
    course: Course,
    conditions: Conditions,
    effort: Effort,
    cast: Cast,
    jobs: Vec<Job>,
    /// Held by the run that has its row in the kernel.
    turn: Mutex<()>,
}

impl Campaign {
    /// Plans and checks all runs.
    pub fn new(
        network: Network,
        cast: Cast,
        conditions: Conditions,
        effort: Effort,
    ) -> Result<Self, Error> {
        let bounds = [
            ("time", conditions.time, 1..=3600),
            ("warmup", conditions.warmup, 0..=3600),
            ("runs", effort.runs.into(), 1..=1000),
            ("jobs", effort.jobs.into(), 1..=256),
        ];
        for (what, number, range) in bounds {
            if !range.contains(&number) {
                let (least, most) = range.into_inner();
                let wrong = format!("{what} = {number}: must be from {least} to {most}");
                return Err(Error::Input(wrong));
            }
        }
        if let Some(loss) = conditions.losses.iter().find(|loss| !(0.0..1.0).contains(*loss)) {
            return Err(Error::Input(format!("loss = {loss}: must be at least 0 and below 1")));
        }
        let course = Course::new(network)?;
        if course.place.is_none() && (conditions.routers || !conditions.losses.is_empty()) {
            return Err(Error::Input(format!(
                "{}: loss rates and routers apply to one link: name that link (--link NAME)",
                course.source.name
            )));
        }
        if let Some(dir) = &effort.records {
            fs::create_dir_all(dir)
                .map_err(|error| Error::Input(format!("records {}: {error}", dir.display())))?;
        }
        let losses: Vec<Option<f64>> = match conditions.losses.is_empty() {
            true => vec![None],
            false => conditions.losses.iter().copied().map(Some).collect(),
        };
        let programs = cast.entries.len();
        let of_seed = |seed| {
            let of_loss = move |loss| (0..programs).map(move |program| Job { program, loss, seed });
            losses.clone().into_iter().flat_map(of_loss)
        };
        let jobs = (effort.seed..).take(effort.runs.into()).flat_map(of_seed).collect();
        let campaign = Campaign { course, conditions, effort, cast, jobs, turn: Mutex::new(()) };
        for job in campaign.jobs.iter().take(losses.len() * programs) {
            campaign.check(job)?;
        }
        Ok(campaign)
    }

    /// Warnings about the scenario, a sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.course.warnings
    }

    /// Programs that were skipped, each with the reason.
    pub fn skipped(&self) -> &[(String, String)] {
        &self.cast.skipped
    }

    /// Number of runs.
    pub fn planned(&self) -> usize {
        self.jobs.len()
    }

    /// The network in words.
    pub fn network(&self) -> &str {
        &self.course.words
    }

    /// The measured part of each run in words.
    pub fn window(&self) -> String {
        let Conditions { time, warmup, .. } = self.conditions;
        format!("Measured for {time} s, {warmup} s after the first full packet.")
    }

    /// Mean rate of the link, bits per second.
    pub fn rate_bps(&self) -> f64 {
        self.course.rate_bps
    }

    /// The rival in words, if there is one.
    pub fn rival(&self) -> Option<String> {
        self.cast.rival.as_ref().map(|rival| format!("{} ({})", rival.name, rival.about))
    }

    /// All inputs of the runs, to find out whether two campaigns are the same.
    pub fn key(&self) -> String {
        let Campaign { course, conditions, effort, cast, .. } = self;
        let Source { text, changes, .. } = &course.source;
        let Effort { runs, seed, simulate, records, .. } = effort;
        let each = (runs, seed, simulate, records);
        let network = (text, changes, course.traces, &course.place);
        format!("{:?}", (network, conditions, each, &cast.entries, &cast.rival))
    }

    /// The scenario of one run.
    fn source(&self, job: &Job, with_rival: bool) -> Result<Source, Error> {
        let Course { place, group, nodes, .. } = &self.course;
        let mut source = self.course.source.clone();
        let mut set = |key: String, value: String| source.changes.push((key, value));
        set("seed".to_owned(), job.seed.to_string());
        if let Some(place) = place {
            if let Some(loss) = job.loss {
                set(format!("{place}.loss"), loss.to_string());
            }
            let twin = self.entry(job).twin.as_ref().filter(|_| self.conditions.routers);
            if let Some(twin) = twin {
                let plan = twin.plan(&[]).map_err(Error::Input)?;
                set(format!("{place}.router"), plan.protocol.router.name().to_owned());
            }
        }
        if with_rival {
            let between = |[from, to]: &[String; 2]| format!(", from = '{from}', to = '{to}'");
            let nodes = nodes.as_ref().map_or_else(String::new, between);
            let rival = format!("{{ group = 'rival-of-{group}', protocol = '{NAME}'{nodes} }}");
            set("flows.+".to_owned(), rival);
        }
        Ok(source)
    }

    /// Checks a run before it begins.
    fn check(&self, job: &Job) -> Result<(), Error> {
        self.source(job, false)?.load()?;
        if self.cast.rival.is_some() {
            self.source(job, true)?.load()?;
        }
        let entry = self.entry(job);
        if let Some(twin) = &entry.twin {
            twin.plan(&self.endpoint(entry))
                .map_err(|wrong| Error::Input(format!("{}: {wrong}", entry.name)))?;
        }
        Ok(())
    }

    fn entry(&self, job: &Job) -> &Entry {
        &self.cast.entries[job.program]
    }

    /// Carries out the runs that are missing in `runs`, which has a place for each,
    /// [`Effort::jobs`] at once. Calls `hear` for each run that ends, and several times per
    /// second. After an error, and once `stop` is true, current runs end and no more begin.
    ///
    /// # Errors
    /// The first error of a run or of `hear`. `stop` causes no error: runs are missing
    /// then.
    pub fn run<E: From<Error> + Send>(
        &self,
        runs: &mut [Option<Run>],
        stop: &'static AtomicBool,
        mut hear: impl FnMut(Progress<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        sweep().map_err(Error::from)?;
        let _allowed = self.cast.allow()?;
        let planned = self.jobs.len();
        let missing: Vec<usize> = (0..planned).filter(|job| runs[*job].is_none()).collect();
        let mut done = planned - missing.len();
        let at_once = usize::from(self.effort.jobs).min(missing.len());
        let next = Mutex::new(missing.into_iter());
        let (tell, told) = channel();
        let mut failure = None;
        thread::scope(|scope| {
            for _ in 0..at_once {
                let (tell, next) = (tell.clone(), &next);
                scope.spawn(move || self.work(next, stop, &tell));
            }
            drop(tell);
            loop {
                let heard = match told.recv_timeout(std::time::Duration::from_millis(200)) {
                    Ok((job, Ok(Some(run)))) => {
                        done += 1;
                        let run = &*runs[job].insert(run);
                        let number = u32::try_from(job).unwrap_or(u32::MAX);
                        hear(Progress { done, planned, ended: Some((number, run)) })
                    }
                    Ok((_, Ok(None))) | Err(RecvTimeoutError::Timeout) => {
                        hear(Progress { done, planned, ended: None })
                    }
                    Ok((_, Err(error))) => Err(E::from(error)),
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                if let Err(error) = heard {
                    next.lock().expect("nobody panics with it").nth(planned);
                    failure.get_or_insert(error);
                }
            }
        });
        failure.map_or(Ok(()), Err)
    }

    fn work(
        &self,
        next: &Mutex<std::vec::IntoIter<usize>>,
        stop: &'static AtomicBool,
        tell: &Sender<(usize, Result<Option<Run>, Error>)>,
    ) {
        while !stop.load(Ordering::Relaxed) {
            let job = next.lock().expect("nobody panics with it").next();
            let Some(job) = job else { return };
            if tell.send((job, self.measure(&self.jobs[job], stop))).is_err() {
                return;
            }
        }
    }

    /// Carries out one run, alone and with the rival; `None` if it was interrupted.
    fn measure(&self, job: &Job, stop: &'static AtomicBool) -> Result<Option<Run>, Error> {
        let mut run = Run {
            program: self.entry(job).name.clone(),
            loss: job.loss.unwrap_or(self.course.loss),
            seed: job.seed,
            alone: None,
            simulated: None,
            beside: None,
            simulated_beside: None,
            late_share: 0.0,
            programs_waited_share: None,
            unusable: None,
        };
        let is_whole = self.alone(job, &mut run, stop)?
            && match &self.cast.rival {
                Some(rival) => self.beside(job, rival, &mut run, stop)?,
                None => true,
            };
        // Ctrl-C in a terminal also ends the programs: an unusable run was then interrupted.
        let is_cut = run.unusable.is_some() && stop.load(Ordering::Relaxed);
        Ok(Some(run).filter(|_| is_whole && !is_cut))
    }

    /// The program alone; false if it was interrupted.
    fn alone(&self, job: &Job, run: &mut Run, stop: &'static AtomicBool) -> Result<bool, Error> {
        let mut began = None;
        match self.emulate(job, None, stop)? {
            Tried::Stopped => return Ok(false),
            Tried::Bad(why) => run.unusable = Some(why),
            Tried::Good(emulated) => {
                note_clock(run, &emulated);
                began = Some(emulated.figures.began);
                match self.goodput(self.entry(job), &emulated) {
                    Err(why) => run.unusable = Some(why),
                    Ok(reported) => run.alone = Some(measured(&emulated.figures, reported)),
                }
            }
        }
        if self.effort.simulate {
            run.simulated = self.simulate(job, None, began, stop)?.map(|figures| {
                let unique = figures.flows[0].unique_bps;
                measured(&figures, Some(unique))
            });
        }
        Ok(!self.effort.simulate || run.simulated.is_some() || !stop.load(Ordering::Relaxed))
    }

    /// The program with a rival; false if it was interrupted.
    fn beside(
        &self,
        job: &Job,
        rival: &Entry,
        run: &mut Run,
        stop: &'static AtomicBool,
    ) -> Result<bool, Error> {
        let mut began = None;
        match self.emulate(job, Some(rival), stop)? {
            Tried::Stopped => return Ok(false),
            Tried::Bad(why) => {
                let why = format!("beside {}: {why}", rival.name);
                let before = run.unusable.take().map_or_else(String::new, |own| format!("{own}; "));
                run.unusable = Some(before + &why);
            }
            Tried::Good(emulated) => {
                note_clock(run, &emulated);
                run.beside = Some(beside(&emulated.figures));
                began = Some(emulated.figures.began);
            }
        }
        if self.effort.simulate {
            let figures = self.simulate(job, Some(rival), began, stop)?;
            run.simulated_beside = figures.as_ref().map(beside);
        }
        let is_simulated = run.simulated_beside.is_some() || !self.effort.simulate;
        Ok(is_simulated || !stop.load(Ordering::Relaxed))
    }

    fn measured_window(&self) -> Window {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        let Conditions { warmup, time, .. } = self.conditions;
        Window { warmup: seconds(warmup), time: seconds(time) }
    }

    fn endpoint(&self, entry: &Entry) -> Vec<(String, String)> {
        entry.endpoint(self.course.mtu, &self.conditions.endpoint)
    }

    /// The commands of a program whose folder is that.
    fn program(&self, entry: &Entry, folder: &Path) -> Program {
        let word = |(key, value)| format!("--set {}", shell_word(&format!("{key}={value}")));
        let words: Vec<String> = self.endpoint(entry).into_iter().map(word).collect();
        let words = Words {
            windward: &self.effort.windward,
            endpoint: &words.join(" "),
            folder: &shell_word(&folder.to_string_lossy()),
        };
        let Conditions { warmup, time, .. } = self.conditions;
        entry.program(warmup, time, &words)
    }

    /// Emulates a run, and once more if the machine was too slow.
    fn emulate(
        &self,
        job: &Job,
        rival: Option<&Entry>,
        stop: &'static AtomicBool,
    ) -> Result<Tried, Error> {
        let source = self.source(job, rival.is_some())?;
        let file = source.file()?;
        let entries = [Some(self.entry(job)), rival];
        let record = self.record_of(job, rival.is_some());
        let mut why = String::new();
        for _ in 0..2 {
            // They are removed at the end of the turn, when the programs have ended.
            let entries: Vec<&Entry> = entries.into_iter().flatten().collect();
            let folders: Vec<Scratch> =
                entries.iter().map(|_| own_folder()).collect::<Result<_, _>>()?;
            let programs = entries.iter().zip(&folders);
            let programs: Vec<Program> =
                programs.map(|(entry, folder)| self.program(entry, folder.path())).collect();
            let recorder = record.as_ref().map(|path| {
                let wrong = |error| Error::Input(format!("records {}: {error}", path.display()));
                source.record(&source.load()?, KEPT, path).map_err(wrong)
            });
            let (recorder, window) = (recorder.transpose()?, self.measured_window());
            let row = entries.iter().find_map(|entry| entry.kernel_row.as_deref());
            match self.with_row(row, || {
                trial::emulate(&file, &source.stacks, &programs, window, recorder, stop)
            }) {
                Ok(None) => return Ok(Tried::Stopped),
                Ok(Some(emulated)) if emulated.clock.usable => {
                    if let Some(path) = record {
                        check_record(&path, &source.stacks, emulated.fingerprint)?;
                    }
                    return Ok(Tried::Good(Box::new(emulated)));
                }
                Ok(Some(emulated)) => {
                    why = format!("too slow twice: {}", emulated.clock.faults().join(", "));
                }
                Err(error @ (Error::Ended { .. } | Error::Nothing(_))) => {
                    return Ok(Tried::Bad(error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Tried::Bad(why))
    }

    /// Calls a function, while that row is in the kernel if one is given.
    fn with_row<T: Send>(
        &self,
        row: Option<&str>,
        run: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        let (Some(row), Some(kernel)) = (row, self.cast.kernel) else { return run() };
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut run, mut result) = (Some(run), None);
        kernel(row, &mut || result = run.take().map(|run| run())).map_err(Error::Failed)?;
        result.unwrap_or_else(|| Err(Error::Failed(format!("{row} was not put into the kernel"))))
    }

    /// Path of the record of an emulation, if records are kept.
    fn record_of(&self, job: &Job, with_rival: bool) -> Option<PathBuf> {
        let loss = job.loss.map_or_else(String::new, |loss| format!("-{loss}"));
        let rival = if with_rival { "-beside" } else { "" };
        let name = format!("{}{loss}-{}{rival}.rec", self.entry(job).name, job.seed);
        self.effort.records.as_ref().map(|dir| dir.join(name))
    }

    /// Goodput as the program reports it, if its report covers the same seconds.
    fn goodput(&self, entry: &Entry, emulated: &Emulated) -> Result<Option<f64>, String> {
        match entry.is_asked(self.conditions.warmup) {
            true => entry.goodput_bps(&emulated.outputs[0]),
            false => Ok(None),
        }
    }

    /// Simulates the run in virtual time, from `began` on. `None` if a program has no simulated
    /// counterpart, or `stop` became true.
    fn simulate(
        &self,
        job: &Job,
        rival: Option<&Entry>,
        began: Option<Time>,
        stop: &'static AtomicBool,
    ) -> Result<Option<TrialOutcome>, Error> {
        let mut plans: Vec<Plan> = Vec::new();
        for entry in [Some(self.entry(job)), rival].into_iter().flatten() {
            let Some(twin) = &entry.twin else { return Ok(None) };
            plans.push(twin.plan(&self.endpoint(entry)).map_err(Error::Input)?);
        }
        let source = self.source(job, rival.is_some())?;
        let (scenario, flows) = trial::twin(&source.file()?, &source.stacks, &plans)?;
        Ok(trial::simulate(&scenario, &flows, self.measured_window(), began, stop))
    }
}

/// Result of an emulation that may have been too slow.
enum Tried {
    Good(Box<Emulated>),
    /// It cannot be used, for this reason.
    Bad(String),
    Stopped,
}

/// Checks that a record replays to the fingerprint of its run.
fn check_record(path: &std::path::Path, stacks: &Stacks, fingerprint: u64) -> Result<(), Error> {
    match Recorded::open(path, stacks.clone())?.replay(None)?.fingerprint == fingerprint {
        true => Ok(()),
        false => Err(Error::Failed(format!(
            "{} replays to a fingerprint that differs from that of its run",
            path.display()
        ))),
    }
}

/// Notes how well the clock of an emulation was kept; the worst one counts.
fn note_clock(run: &mut Run, emulated: &Emulated) {
    let clock = &emulated.clock;
    run.late_share = run.late_share.max(clock.late_share);
    let waited = clock.programs_waited_share.into_iter().chain(run.programs_waited_share);
    run.programs_waited_share = waited.reduce(f64::max);
}

/// Rates of the first flow and the second.
fn beside(figures: &TrialOutcome) -> Beside {
    let [own_bps, rival_bps] = [0, 1].map(|flow| figures.flows[flow].arrived_bps);
    Beside { own_bps, rival_bps }
}

/// A new folder for a program, which only this user can enter.
fn own_folder() -> Result<Scratch, Error> {
    Scratch::new().map_err(|error| Error::Failed(format!("make a temporary folder in {error}")))
}

fn measured(figures: &TrialOutcome, reported: Option<f64>) -> Measured {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rows_of_the_kernel_do_not_compete() {
        let text =
            "[[programs]]\nname = 'k:{row}'\nkernel_row = '{row}'\nserver = 's'\nclient = 'c'";
        let table = Programs::parse("t", text).unwrap().with_kernel(|_, run| {
            run();
            Ok(())
        });
        let choose = |names: &[&str], rival: &str| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            Cast::choose(&table, &names, &Rival::Named(rival.to_owned()))
        };
        assert!(choose(&["k:upwind"], "k:upwind").is_ok());
        let error = choose(&["k:upwind", "k:cubic"], "k:upwind").unwrap_err().to_string();
        let said = "k:cubic cannot compete with k:upwind: the kernel has one row of Windward";
        assert!(error.starts_with(said), "{error}");
    }
}
