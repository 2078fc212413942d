//! A search from experiments to files, which can be interrupted and resumed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use windward_sim::output::OutputDir;

use super::{FILE, FoundWorld, JointWorld, SearchFacts, Worlds};
use crate::ExperimentError;
use crate::builtin::key_of;
use crate::campaign::{
    self, ClaimId, Event, FRESH, Found, Observer, Request, RunExecutor, RunRecord, Searched,
};
use crate::claims;
use crate::error::nearest;
use crate::experiment::{Effort, Experiment};
use crate::folder::Folder;
use crate::sweep::{self, Plan, RunOptions};

/// Claims to search for, the budget, and the place of the result.
#[derive(Debug, Clone, Default)]
pub struct SearchOptions {
    /// Claims, experiments or papers by name. Empty for all claims of the experiments.
    pub names: Vec<String>,
    /// Budget of a claim in predicted packet-hops; `None` for no bound.
    pub budget: Option<f64>,
    /// Seed that replaces those of the files, for the record.
    pub seed: Option<u64>,
    /// Folder for the found worlds, instead of one for each paper within that of the search.
    pub folder: Option<PathBuf>,
    /// True to continue an interrupted search in the same folder.
    pub resume: bool,
}

/// Result of a search.
#[derive(Debug, Clone)]
pub struct SearchSummary {
    /// Each claim, in the order of the experiments.
    pub found: Vec<Found>,
    /// The joint world of each paper, by its key.
    pub joint: Vec<(String, JointWorld)>,
    /// The written files.
    pub files: Vec<PathBuf>,
    /// Number of runs, those of an interrupted attempt included.
    pub runs: usize,
    /// Number of them that an interrupted attempt had finished.
    pub resumed: usize,
}

/// Searches for the nearest world of each claim, and writes `worlds.toml` for each paper. The
/// folder `out` keeps the runs of an interrupted search.
///
/// # Errors
/// If a name is unknown, an experiment is impossible, a file cannot be written, or the search is
/// cancelled. After cancellation, completed runs are stored and can be resumed.
pub fn search(
    experiments: &[Experiment],
    effort: &Effort,
    options: &RunOptions<'_>,
    search: &SearchOptions,
    out: &Path,
) -> Result<SearchSummary, ExperimentError> {
    search_with(experiments, effort, options, search, out, &sweep::simulate)
}

/// As [`search`], with runs on other machines, or by another simulator.
///
/// # Errors
/// As [`search`].
pub fn search_with(
    experiments: &[Experiment],
    effort: &Effort,
    options: &RunOptions<'_>,
    search: &SearchOptions,
    out: &Path,
    executor: &impl RunExecutor,
) -> Result<SearchSummary, ExperimentError> {
    claims::check_references(experiments)?;
    let request = Request { claims: claims_of(experiments, &search.names)?, budget: search.budget };
    let plan = |e: &Experiment| match options.cancel.load(Ordering::Relaxed) {
        true => Err(ExperimentError::Cancelled),
        false => e.plan(effort),
    };
    let plans = experiments.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
    let mut folder = Folder::open(out)?;
    let mut keys: Vec<String> = Vec::new();
    for claim in &request.claims {
        let key = key_of(&plans[claim.experiment].experiment);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let place = |key: &String| search.folder.clone().unwrap_or_else(|| out.join(key));
    // A file that cannot be read is found before minutes of runs.
    let earlier = keys.iter().map(|key| {
        let path = place(key).join(FILE);
        if path.exists() { Worlds::read(&path) } else { Ok(Worlds::default()) }
    });
    let earlier = earlier.collect::<Result<Vec<Worlds>, _>>()?;
    let known: Vec<RunRecord> = folder.journal(key(&plans), search.resume)?;
    let mut recorder = Recorder { folder, resumed: 0 };
    let Searched { found, joint, runs } =
        campaign::search(&plans, options, &request, known, &mut recorder, executor)?;
    let facts = SearchFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        effort: if effort.is_full() { "full" } else { "quick" }.to_owned(),
        budget: search.budget.map(|hops| (hops / 1e6) as u64),
        seed: search.seed,
        fresh: FRESH,
    };
    let mut files = Vec::new();
    for (key, earlier) in keys.iter().zip(earlier) {
        let own = found.iter().filter(|f| key_of(&plans[f.claim.experiment].experiment) == *key);
        let joint = joint.iter().filter(|(k, _)| k == key).map(|(_, joint)| joint.clone());
        let worlds = Worlds {
            search: Some(facts.clone()),
            worlds: own.map(|f| f.world.clone()).collect(),
            joint: joint.collect(),
        };
        let text = worlds.beside(earlier, &plans).to_toml();
        let path = place(key);
        let mut dir = OutputDir::create(&path)?;
        dir.write(FILE, |out| out.write_all(text.as_bytes()))?;
        dir.commit()?;
        files.push(path.join(FILE));
    }
    let Recorder { folder, resumed } = recorder;
    folder.finish()?;
    Ok(SearchSummary { found, joint, files, runs, resumed })
}

impl Worlds {
    /// These worlds, and the earlier ones of claims that were not searched for. The facts are those
    /// of the earlier search then, and a world with another effort or budget names its own.
    fn beside(mut self, earlier: Worlds, plans: &[Plan]) -> Self {
        let own = std::mem::replace(&mut self.worlds, earlier.worlds);
        let is_partial = self.worlds.iter().any(|e| own.iter().all(|world| world.claim != e.claim));
        let (effort, budget) = effort_and_budget(self.search.as_ref());
        if let Some(facts) = earlier.search.filter(|_| is_partial) {
            self.search = Some(facts);
        }
        let of_file = effort_and_budget(self.search.as_ref());
        for world in own {
            let effort = effort.clone().filter(|_| effort != of_file.0);
            let world =
                FoundWorld { effort, budget: budget.filter(|_| budget != of_file.1), ..world };
            match self.worlds.iter_mut().find(|earlier| earlier.claim == world.claim) {
                Some(earlier) => *earlier = world,
                None => self.worlds.push(world),
            }
        }
        let ids = plans.iter().flat_map(|plan| &plan.experiment.claims).map(|c| c.id.as_str());
        let ids: Vec<&str> = ids.collect();
        let place = |world: &FoundWorld| ids.iter().position(|id| *id == world.claim);
        // Claims of experiments that were not named keep their place.
        if self.worlds.iter().all(|world| place(world).is_some()) {
            self.worlds.sort_by_key(place);
        }
        // A search of some claims has no joint world.
        if self.joint.is_empty() {
            self.joint = earlier.joint;
        }
        self
    }
}

fn effort_and_budget(search: Option<&SearchFacts>) -> (Option<String>, Option<u64>) {
    (search.map(|search| search.effort.clone()), search.and_then(|search| search.budget))
}

/// The claims of these names.
fn claims_of(
    experiments: &[Experiment],
    names: &[String],
) -> Result<Vec<ClaimId>, ExperimentError> {
    let mut claims = Vec::new();
    let mut used = vec![false; names.len()];
    for (index, experiment) in experiments.iter().enumerate() {
        for (number, claim) in experiment.claims.iter().enumerate() {
            let mut wanted = names.is_empty();
            for (name, used) in names.iter().zip(&mut used) {
                let named = *name == claim.id
                    || *name == experiment.id
                    || *name == key_of(experiment)
                    || name == crate::builtin::ALL;
                *used |= named;
                wanted |= named;
            }
            if wanted {
                claims.push(ClaimId { experiment: index, claim: number });
            }
        }
    }
    let fail =
        |file: String, message: String| ExperimentError::Experiment { file, line: 0, message };
    if let Some((name, _)) = names.iter().zip(used).find(|(_, used)| !used) {
        let ids = experiments.iter().flat_map(|e| &e.claims).map(|c| c.id.as_str());
        let hint = nearest(name, ids);
        return Err(fail(name.clone(), format!("no claim to search a world for{hint}")));
    }
    if claims.is_empty() {
        let files = experiments.iter().map(|e| e.file.clone()).collect::<Vec<_>>().join(", ");
        return Err(fail(files, "no claim to search a world for".to_owned()));
    }
    Ok(claims)
}

/// Key of a search, which depends on experiments and lengths. The runs are the same whatever the
/// budget.
fn key(plans: &[Plan]) -> u64 {
    let mut key = DefaultHasher::new();
    "worlds".hash(&mut key);
    for Plan { experiment, length, scenarios, .. } in plans {
        (&experiment.id, &experiment.file, experiment.revision.configuration_hash).hash(&mut key);
        format!("{length:?}").hash(&mut key);
        scenarios.first().map(|s| s.seed).hash(&mut key);
        experiment.scenario.hash_traces(&mut key);
    }
    key.finish()
}

/// Stores the runs.
struct Recorder {
    folder: Folder,
    resumed: usize,
}

impl Observer for Recorder {
    fn event(&mut self, _: Event) -> Result<(), ExperimentError> {
        Ok(())
    }

    fn record(&mut self, run: &RunRecord, known: bool) -> Result<(), ExperimentError> {
        if known {
            self.resumed += 1;
            return Ok(());
        }
        self.folder.record(&RunRecord { outcome: None, ..run.clone() })
    }
}
