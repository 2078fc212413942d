//! `worlds.toml`: what a search found for the claims of a paper.

use std::fmt::Write as _;
use std::path::Path;

use windward_sim::keys;
use windward_sim::strict_toml::{
    Document, Field, KeySource, Result, Section, TomlType, json_schema, readers, unnamed,
};

use super::read_settings;
use super::reading::Deviation;
use crate::ExperimentError;
use crate::verdict::Verdict;

/// Name of the file in a paper's folder.
pub const FILE: &str = "worlds.toml";

/// Result of a search for the claims of a paper.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Worlds {
    /// How the search was done, so that it can be repeated.
    pub search: Option<SearchFacts>,
    /// One for each claim that was searched for, in the order of the experiments.
    pub worlds: Vec<FoundWorld>,
    /// The largest set of claims that hold together; of several equal ones, each.
    pub joint: Vec<JointWorld>,
}

/// How a search was done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchFacts {
    /// Version of the program.
    pub version: String,
    /// `quick` or `full`: the lengths of the runs.
    pub effort: String,
    /// Budget of a claim in millions of predicted packet-hops; `None` without a bound.
    pub budget: Option<u64>,
    /// Seed in place of those of the files, if one was given.
    pub seed: Option<u64>,
    /// Number of the first repetition of confirmations; the seed of repetition r is that of the
    /// experiment plus r.
    pub fresh: u32,
}

/// The nearest world in which a claim has another verdict than plainly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundWorld {
    /// `L3`.
    pub claim: String,
    /// The claim's verdict in that world: held, or not held if it holds plainly. If none was
    /// found, the verdict that was sought.
    pub verdict: Verdict,
    /// The choices with another value than the plain one; `None` if no such world was found.
    pub readings: Option<Deviation>,
    /// Worlds judged.
    pub tried: u64,
    /// Worlds judged that passed the sieve.
    pub held: u64,
    /// Worlds in the product of all readings of the claim.
    pub of: u64,
    /// Worlds that passed the sieve and stayed open in their confirmation; all of them are nearer
    /// than the one that was found, if one was.
    pub undecided: u64,
    /// Number of confirmations that were attempted.
    pub confirmations: u64,
    /// Reason why the search ended.
    pub end: End,
    /// Lengths of the runs of its search, if they are not those of the file
    /// ([`SearchFacts::effort`]).
    pub effort: Option<String>,
    /// Budget of its search, if that is not the one of the file ([`SearchFacts::budget`]).
    pub budget: Option<u64>,
}

/// Reason why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The nearest world was found: none of a smaller size passed.
    Found,
    /// Every world was tried.
    Exhausted,
    /// The budget was spent.
    Budget,
}

impl End {
    /// Every end with its word in files.
    pub const ALL: [(&'static str, End); 3] =
        [("found", End::Found), ("exhausted", End::Exhausted), ("budget", End::Budget)];

    /// Its word in files.
    pub fn word(self) -> &'static str {
        End::ALL.iter().find(|(_, end)| *end == self).map_or("", |(word, _)| word)
    }
}

/// A set of claims that hold together in one world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JointWorld {
    /// The choices with another value than the plain one.
    pub readings: Deviation,
    /// The claims, in the order of the experiments.
    pub claims: Vec<String>,
}

keys! {
    /// Keys of a file of found worlds.
    struct WorldsFileKeys<'a> in "worlds_file" {
        search: Option<Section<'a>> = readers::table(&[SearchKeys::KEYS]), absent,
            "how the search was done";
        worlds: Vec<Section<'a>> = readers::tables(&[WorldKeys::KEYS], unnamed), empty,
            "the nearest world of each claim";
        joint: Vec<Section<'a>> = readers::tables(&[JointKeys::KEYS], unnamed), empty,
            "the largest set of claims that hold together";
    }

    /// Keys of `[search]`.
    struct SearchKeys in "search" {
        version: String = readers::string(), needed "version = \"0.1.0\"",
            "the version of the program";
        effort: String = readers::string(), needed "effort = \"quick\"", "the lengths of the runs";
        budget: Option<u64> = readers::integer(0..=u64::MAX), absent,
            "budget of a claim in millions of predicted packet-hops";
        seed: Option<u64> = readers::integer(0..=u64::MAX), absent,
            "the seed that was given in place of those of the files";
        fresh: u32 = readers::small(0..=u32::MAX), or 0,
            "the first repetition of confirmations";
    }

    /// Keys of a found world.
    struct WorldKeys<'a> in "found_world" {
        claim: String = readers::string(), needed "claim = \"L3\"", "the claim";
        verdict: Verdict = readers::one_of(&VERDICTS), needed "verdict = \"held\"",
            "the claim's verdict in that world";
        readings: Option<Section<'a>> = readers::free(TomlType::Text), absent,
            "the choices with another value than the plain one; none if nothing was found";
        tried: u64 = readers::integer(0..=u64::MAX), needed "tried = 12", "worlds judged";
        held: u64 = readers::integer(0..=u64::MAX), or 0, "worlds judged that passed the sieve";
        of: u64 = readers::integer(0..=u64::MAX), needed "of = 64",
            "worlds in the product of all readings of the claim";
        undecided: u64 = readers::integer(0..=u64::MAX), or 0,
            "worlds that passed the sieve and stayed open";
        confirmations: u64 = readers::integer(0..=u64::MAX), or 0,
            "confirmations that were attempted";
        end: End = readers::one_of(&End::ALL), needed "end = \"found\"",
            "the reason why the search ended";
        effort: Option<String> = readers::string(), absent,
            "the lengths of the runs of its search, if they are not those of the file";
        budget: Option<u64> = readers::integer(0..=u64::MAX), absent,
            "budget of its search, if that is not the one of the file";
    }

    /// Keys of a joint world.
    struct JointKeys<'a> in "joint_world" {
        readings: Section<'a> = readers::free(TomlType::Text),
            needed "readings = { rwnd = \"65 packets\" }",
            "the choices with another value than the plain one";
        claims: Vec<String> = readers::strings(), needed "claims = [\"L3\", \"L13\"]",
            "the claims that hold in it";
    }
}

/// The declarations of the keys of the file.
const KEYS: &[KeySource] = &[WorldsFileKeys::KEYS];

/// Every verdict with its word.
pub(super) const VERDICTS: [(&str, Verdict); 4] = [
    ("held", Verdict::Held),
    ("tie", Verdict::Tie),
    ("not held", Verdict::NotHeld),
    ("inconclusive", Verdict::Inconclusive),
];

impl Worlds {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or anything in it is wrong.
    pub fn read(path: &Path) -> std::result::Result<Self, ExperimentError> {
        read_settings(path, Self::parse)
    }

    /// Parses a text; `name` is the file's name in errors.
    ///
    /// # Errors
    /// If anything in it is wrong.
    pub fn parse(name: &str, text: &str) -> std::result::Result<Self, ExperimentError> {
        let document = Document::parse(name, text)?;
        let keys = WorldsFileKeys::read(&document.root(KEYS)?)?;
        let mut worlds: Vec<FoundWorld> = Vec::new();
        for table in &keys.worlds {
            let world = found(table)?;
            if worlds.iter().any(|w| w.claim == world.claim) {
                let message = format!("there are two worlds of the claim `{}`", world.claim);
                return Err(table.error(message).into());
            }
            worlds.push(world);
        }
        Ok(Worlds {
            search: keys.search.as_ref().map(facts).transpose()?,
            worlds,
            joint: keys.joint.iter().map(joint).collect::<Result<_>>()?,
        })
    }

    /// The world of a claim.
    pub fn of(&self, claim: &str) -> Option<&FoundWorld> {
        self.worlds.iter().find(|world| world.claim == claim)
    }

    /// The file.
    pub fn to_toml(&self) -> String {
        let mut text = HEAD.to_owned();
        if let Some(search) = &self.search {
            text += "\n[search]\n";
            line(&mut text, "version", &quoted(&search.version));
            line(&mut text, "effort", &quoted(&search.effort));
            for (key, value) in [("budget", search.budget), ("seed", search.seed)] {
                if let Some(value) = value {
                    line(&mut text, key, &value.to_string());
                }
            }
            line(&mut text, "fresh", &search.fresh.to_string());
        }
        for world in &self.worlds {
            text += "\n[[worlds]]\n";
            line(&mut text, "claim", &quoted(&world.claim));
            line(&mut text, "verdict", &quoted(&world.verdict.to_string()));
            if let Some(readings) = &world.readings {
                line(&mut text, "readings", &table(readings));
            }
            for (key, value) in [
                ("tried", world.tried),
                ("held", world.held),
                ("of", world.of),
                ("undecided", world.undecided),
                ("confirmations", world.confirmations),
            ] {
                line(&mut text, key, &value.to_string());
            }
            line(&mut text, "end", &quoted(world.end.word()));
            if let Some(effort) = &world.effort {
                line(&mut text, "effort", &quoted(effort));
            }
            if let Some(budget) = world.budget {
                line(&mut text, "budget", &budget.to_string());
            }
        }
        for joint in &self.joint {
            text += "\n[[joint]]\n";
            line(&mut text, "readings", &table(&joint.readings));
            let claims: Vec<String> = joint.claims.iter().map(|c| quoted(c)).collect();
            line(&mut text, "claims", &format!("[{}]", claims.join(", ")));
        }
        text
    }

    /// A JSON Schema of the file.
    pub fn json_schema() -> serde_json::Value {
        json_schema("Found worlds of Windward", KEYS)
    }
}

/// First lines of the file.
const HEAD: &str = "\
# The nearest world of each claim, written by `windward reproduce --worlds`.
# docs/experiments.md says what the keys mean.
";

fn line(text: &mut String, key: &str, value: &str) {
    // A String takes everything.
    let _ = writeln!(text, "{key} = {value}");
}

/// A TOML string. A JSON string is one, but for the DEL character.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// An inline table.
fn table(readings: &Deviation) -> String {
    let entry = |(name, label): &(String, String)| format!("{name} = {}", quoted(label));
    match readings.choices().iter().map(entry).collect::<Vec<_>>() {
        entries if entries.is_empty() => "{}".to_owned(),
        entries => format!("{{ {} }}", entries.join(", ")),
    }
}

fn facts(table: &Section<'_>) -> Result<SearchFacts> {
    let SearchKeys { version, effort, budget, seed, fresh } = SearchKeys::read(table)?;
    Ok(SearchFacts { version, effort, budget, seed, fresh })
}

fn found(table: &Section<'_>) -> Result<FoundWorld> {
    let keys = WorldKeys::read(table)?;
    Ok(FoundWorld {
        claim: keys.claim,
        verdict: keys.verdict,
        readings: keys.readings.as_ref().map(deviation).transpose()?,
        tried: keys.tried,
        held: keys.held,
        of: keys.of,
        undecided: keys.undecided,
        confirmations: keys.confirmations,
        end: keys.end,
        effort: keys.effort,
        budget: keys.budget,
    })
}

fn joint(table: &Section<'_>) -> Result<JointWorld> {
    let keys = JointKeys::read(table)?;
    Ok(JointWorld { readings: deviation(&keys.readings)?, claims: keys.claims })
}

fn deviation(table: &Section<'_>) -> Result<Deviation> {
    let entry = |(name, value): (&str, Field<'_>)| Ok((name.to_owned(), value.text()?.to_owned()));
    let choices = table.entries().map(entry).collect::<Result<Vec<_>>>()?;
    Ok(Deviation::of_choices(choices))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Worlds {
        let found = FoundWorld {
            claim: "L10".to_owned(),
            verdict: Verdict::Held,
            readings: Some(Deviation::of_choices(vec![
                ("rwnd".to_owned(), "65 \"packets\"".to_owned()),
                ("rto".to_owned(), "1 s".to_owned()),
            ])),
            tried: 12,
            held: 3,
            of: 64,
            undecided: 1,
            confirmations: 2,
            end: End::Found,
            effort: Some("full".to_owned()),
            budget: Some(9600),
        };
        let none = FoundWorld {
            claim: "L8".to_owned(),
            verdict: Verdict::NotHeld,
            readings: None,
            end: End::Exhausted,
            effort: None,
            budget: None,
            ..found.clone()
        };
        Worlds {
            search: Some(SearchFacts {
                version: "0.1.0".to_owned(),
                effort: "quick".to_owned(),
                budget: Some(2400),
                seed: None,
                fresh: 1_000_000,
            }),
            worlds: vec![found, none],
            joint: vec![JointWorld {
                readings: Deviation::PLAIN,
                claims: vec!["L1".to_owned(), "L2".to_owned()],
            }],
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let worlds = example();
        assert_eq!(Worlds::parse("worlds.toml", &worlds.to_toml()).unwrap(), worlds);
        assert_eq!(Worlds::parse("worlds.toml", "").unwrap(), Worlds::default());
        assert_eq!(worlds.of("L8").unwrap().end, End::Exhausted);
        assert!(worlds.of("L9").is_none());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let world = "[[worlds]]\nclaim = \"L3\"\nverdict = \"held\"\ntried = 1\nof = 2\n";
        let error = |text: &str| Worlds::parse("w.toml", text).unwrap_err().to_string();
        for (text, expected) in [
            (format!("{world}end = \"fond\"\n"), "found"),
            (format!("{world}end = \"found\"\nreadigns = {{}}\n"), "readings"),
            (format!("{world}end = \"found\"\n{world}end = \"found\"\n"), "two worlds"),
            (format!("{world}end = \"found\"\nreadings = {{ a = 3 }}\n"), "w.toml:7"),
            (world.to_owned(), "`end`"),
        ] {
            let message = error(&text);
            assert!(message.contains(expected), "{expected}: {message}");
        }
    }
}
