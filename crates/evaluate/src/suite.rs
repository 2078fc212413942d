//! Evaluation by a whole suite, as `windward evaluate`, with its report.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use windward_evaluation::{FaultyController, Question, Suite};
use windward_experiments::ExperimentError;
use windward_experiments::experiment::Subject;
use windward_experiments::{FULL_READINGS, QUICK_READINGS, RunOptions};
use windward_report::{Provenance, ReportOptions};

use crate::guard::{Trouble, Watch};
use crate::{Builder, Effort, Error, Placed, failed, placed};

/// Answer of a controller to a criterion of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The numbers show that it meets the criterion.
    Meets,
    /// The numbers show that it does not.
    DoesNot,
    /// The numbers do not decide after the permitted runs.
    Undecided,
    /// The scenario is impossible with the controller.
    NotApplicable,
}

/// Result of a suite.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Path of the first page.
    pub index: PathBuf,
    /// Troubles of the controller, one of each kind.
    pub troubles: Vec<Trouble>,
    /// Answers to the measured criteria, by id, in the order of the suite.
    pub answers: Vec<(String, Answer)>,
    /// True if it meets all criteria for general use; `None` while one is undecided.
    pub general_use: Option<bool>,
    /// Summary in a few sentences.
    pub summary: String,
}

impl Builder {
    /// Evaluates the controller by a whole suite, `rfc9743` or a file, as `windward evaluate` does,
    /// and writes the report into `folder`. This takes minutes in an optimised build, and hours
    /// with [`Builder::full`]. Runs use all cores. Their number depends on the verdicts, and not on
    /// [`Builder::quick`].
    ///
    /// [`Builder::only`] takes criteria, claims and experiments of the suite here, and
    /// [`Builder::against`] names the controllers that share paths with it; bounds come from the
    /// standards of the suite.
    ///
    /// # Errors
    /// If the suite or a name in `only` does not exist, the controller's name is not valid in
    /// reports, or the folder cannot be written.
    pub fn report(self, suite: &str, folder: impl AsRef<Path>) -> Result<Report, Error> {
        let default = self.against == Self::standards();
        let Builder { name, source, paced, against, only, effort } = self;
        let watch = Arc::new(Watch::default());
        let Placed { subject, stacks } =
            placed(source, Box::leak(name.into_boxed_str()), paced, &watch)?;
        let suite = Suite::find(suite).map_err(failed)?;
        let (of_faulty, chosen) = (suite.clone(), only.clone());
        let rows = against.iter().map(|name| Subject::row(name)).collect();
        let question = Question {
            against: (!default).then_some(rows),
            only,
            stacks,
            ..Question::new(suite, vec![subject])
        };
        let (effort, budget) = match effort {
            Effort::Smoke | Effort::Quick => (windward_experiments::Effort::Quick, QUICK_READINGS),
            Effort::Full => (windward_experiments::Effort::Full, FULL_READINGS),
        };
        let inquiry = question.inquire(&effort).map_err(failed)?;
        let cancel = AtomicBool::new(false);
        let options = RunOptions {
            threads: 0,
            cancel: &cancel,
            readings_budget: Some(budget),
            progress: &|_| {},
        };
        let about = Provenance { command: "windward_evaluate".to_owned(), ..Provenance::default() };
        let report = ReportOptions { about: about.clone(), ..ReportOptions::default() };
        let done =
            windward_evaluation::evaluate(&inquiry, &effort, &options, &report, folder.as_ref());
        let done = match done {
            Err(ExperimentError::Part(fault)) => {
                let faulty = FaultyController::of(&fault);
                let index = faulty.write(&of_faulty, &chosen, &about, folder.as_ref());
                watch.note(Trouble::Invalid { fault: faulty.fault.clone() });
                let asked = FaultyController::criteria(&of_faulty, &chosen).into_iter();
                return Ok(Report {
                    index: index.map_err(failed)?,
                    troubles: watch.take(),
                    answers: asked.map(|c| (c.id.clone(), Answer::DoesNot)).collect(),
                    general_use: Some(false),
                    summary: faulty.sentence(),
                });
            }
            done => done.map_err(failed)?,
        };
        let answers = done.evaluation.criteria.iter().filter_map(|row| {
            let answer = match row.answers.first().copied().flatten()? {
                windward_evaluation::Answer::Meets => Answer::Meets,
                windward_evaluation::Answer::DoesNot => Answer::DoesNot,
                windward_evaluation::Answer::NotApplicable => Answer::NotApplicable,
                _ => Answer::Undecided,
            };
            Some((row.criterion.id.clone(), answer))
        });
        Ok(Report {
            index: done.summary.index.clone(),
            troubles: watch.take(),
            answers: answers.collect(),
            general_use: done.evaluation.general_use(0),
            summary: done.evaluation.summary().concat(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::{Ack, Answer, Congestion, Controller, Report, Trouble, evaluate};

    /// AIMD in bytes.
    struct Aimd(u64);

    impl Controller for Aimd {
        fn window(&self) -> u64 {
            self.0
        }
        fn on_ack(&mut self, ack: &Ack) {
            if !ack.app_limited && !ack.in_recovery {
                self.0 += 1500 * ack.bytes / self.0;
            }
        }
        fn on_congestion(&mut self, _: &Congestion) {
            self.0 = (self.0 / 2).max(3000);
        }
    }

    /// Never reduces its window.
    struct Flood;

    impl Controller for Flood {
        fn window(&self) -> u64 {
            2_000_000
        }
        fn on_ack(&mut self, _: &Ack) {}
    }

    /// Report on its queue in a deep buffer.
    fn queue<C: Controller + 'static>(
        make: impl Fn() -> C + Send + Sync + 'static,
        name: &str,
    ) -> Report {
        let folder = tempfile::tempdir().unwrap();
        let builder = evaluate(make).named(name).only(["no-worse-queue"]);
        let report = builder.report("rfc9743", folder.path()).unwrap();
        assert!(report.index.exists());
        report
    }

    #[test]
    fn a_suite_distinguishes_a_responsive_controller() {
        let aimd = queue(|| Aimd(15_000), "aimd");
        assert_eq!(aimd.answers, [("bufferbloat".to_owned(), Answer::Meets)], "{aimd:?}");
        // The other criteria were not measured.
        assert_eq!((aimd.general_use, &*aimd.troubles), (None, &[][..]));
        let flood = queue(|| Flood, "flood");
        assert_eq!(flood.answers, [("bufferbloat".to_owned(), Answer::DoesNot)], "{flood:?}");
        assert_eq!(flood.general_use, Some(false));
    }

    #[test]
    fn a_controller_that_fails_meets_nothing_of_a_suite() {
        static SEED: AtomicU64 = AtomicU64::new(0);
        let moody = queue(|| Aimd(15_000 + 1500 * SEED.fetch_add(1, Ordering::Relaxed)), "moody");
        assert_eq!(moody.answers.len(), 22, "{moody:?}");
        assert!(moody.answers.iter().all(|(_, answer)| *answer == Answer::DoesNot));
        assert_eq!(moody.general_use, Some(false));
        assert!(moody.summary.contains("moody meets no criterion: it is not deterministic"));
        let said = moody.troubles.iter().any(|trouble| matches!(trouble, Trouble::Invalid { .. }));
        assert!(said, "{moody:?}");
    }

    #[test]
    fn missing_names_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let ask = |name: &str, suite: &str, only: &str| {
            let builder = evaluate(|| Flood).named(name).only([only]);
            builder.report(suite, folder.path()).unwrap_err().to_string()
        };
        for (name, suite, only, says) in [
            ("mine", "rfc9999", "high-loss", "rfc9743"),
            ("mine", "rfc9743", "hihg-loss", "high-loss"),
            ("cubic", "rfc9743", "high-loss", "of the table"),
            ("a name", "rfc9743", "high-loss", "may be in it"),
        ] {
            let said = ask(name, suite, only);
            assert!(said.contains(says), "{said}");
        }
    }
}
