//! The claim behind every criterion of a suite that its subject carries data: a controller that
//! sends nothing harms no other flow.

use super::cast::{Cast, Subject};
use super::{Asked, Check, Claim, Experiment, History, Metric};
use crate::expression::{Comparison, Expression};

/// The metric of that claim, and the beginning of its id.
pub const CARRIED: &str = "carried";

impl Experiment {
    /// Adds for each criterion and each subject the claim that the subject has at least this share
    /// of the goodput of the standard that has least, in every scenario.
    ///
    /// # Errors
    /// If the experiment has a metric of that name.
    pub fn with_least_goodput(mut self, share: f64, cast: &Cast) -> Result<Self, String> {
        let Some(axis) = self.axes.iter().position(|axis| axis.skip_impossible) else {
            return Ok(self);
        };
        if self.metrics.iter().any(|metric| metric.name == CARRIED) {
            return Err(format!("the metric `{CARRIED}` is the goodput of the subject's flows"));
        }
        let groups = self.groups_of(axis);
        let goodput: Vec<String> = groups.iter().map(|group| format!("goodput({group})")).collect();
        let expression =
            Expression::parse(&goodput.join(" + ")).map_err(|wrong| wrong.to_string())?;
        self.metrics.push(Metric { name: CARRIED.to_owned(), expression, line: 0 });
        let mut criteria: Vec<String> = Vec::new();
        for asked in self.claims.iter().filter_map(|claim| claim.asked.as_ref()) {
            if !criteria.contains(&asked.criterion) {
                criteria.push(asked.criterion.clone());
            }
        }
        for (at, criterion) in criteria.iter().enumerate() {
            let id = match at {
                0 => format!("{CARRIED}-{}", self.id),
                _ => format!("{CARRIED}-{}-{criterion}", self.id),
            };
            for subject in &cast.subjects {
                let checks = self.carrying(share, axis, subject, cast)?;
                self.claims.push(Claim {
                    id: format!("{id}@{}", subject.name),
                    claim: "Carries data.".to_owned(),
                    expected: format!(
                        "The goodput is at least {share} of that of the standard that has least, in \
                         each scenario."
                    ),
                    checks,
                    explanation: None,
                    history: History::default(),
                    asked: Some(Asked {
                        of_all: id.clone(),
                        subject: subject.name.clone(),
                        criterion: criterion.clone(),
                    }),
                });
            }
        }
        Ok(self)
    }

    /// Groups of flows whose protocol the axis chooses.
    fn groups_of(&self, axis: usize) -> Vec<String> {
        let keys = self.axes[axis].points.iter().flat_map(|point| &point.set);
        let mut groups: Vec<String> = Vec::new();
        for (key, _) in keys {
            let group = key.strip_prefix("flows.").and_then(|key| key.strip_suffix(".protocol"));
            let all = || self.scenario.build().map(|s| s.groups.clone()).unwrap_or_default();
            let new = match group {
                Some("*") => all(),
                Some(group) => vec![group.to_owned()],
                None => Vec::new(),
            };
            for group in new {
                if !groups.contains(&group) {
                    groups.push(group);
                }
            }
        }
        groups
    }

    /// A check for each point of the other axes.
    fn carrying(
        &self,
        share: f64,
        axis: usize,
        subject: &Subject,
        cast: &Cast,
    ) -> Result<Vec<Check>, String> {
        let standards = cast.standards_of(subject);
        let cells = (0..self.cells()).filter(|cell| self.point_index(*cell, axis) == 0);
        let check = |cell: usize| {
            let of = |name: &str| {
                let mut labels: Vec<&str> =
                    self.points(cell).iter().map(|point| &*point.label).collect();
                labels[axis] = name;
                format!("{CARRIED}[{}]", labels.join(", "))
            };
            let bounds: Vec<String> = standards.iter().map(|s| of(&s.name)).collect();
            let text = format!("{} >= {share} * min({})", of(&subject.name), bounds.join(", "));
            let comparison = Comparison::parse(&text)?;
            Ok(Check::of(vec![(text, comparison)], 0))
        };
        cells.map(check).collect()
    }
}
