//! The experiments of the papers, compiled in, so that they run from anywhere.

use crate::LabError;
use crate::error::nearest;
use crate::experiment::Experiment;

/// Name and text of a file.
macro_rules! lr2008 {
    ($name:literal) => {
        (
            concat!("experiments/papers/lr2008/", $name, ".toml"),
            include_str!(concat!(
                "../../../experiments/papers/lr2008/",
                $name,
                ".toml"
            )),
        )
    };
}

/// Name and text of every file, in the order of the report.
static FILES: &[(&str, &str)] = &[
    lr2008!("fig2"),
    lr2008!("fig3"),
    lr2008!("dupack-threshold"),
    lr2008!("retransmission-timeout"),
    lr2008!("fig4"),
    lr2008!("fig5"),
    lr2008!("fig6"),
    lr2008!("fig7"),
    lr2008!("fig8"),
    lr2008!("partial-deflation"),
    lr2008!("fig9"),
    lr2008!("fig10"),
];

/// All of them, in the order of the report.
///
/// # Errors
/// None, as long as the tests pass.
pub fn all() -> Result<Vec<Experiment>, LabError> {
    FILES
        .iter()
        .map(|(name, text)| Experiment::parse(name, text))
        .collect()
}

/// The experiments with these ids, or all of a paper by its key, and those that their claims
/// refer to; all if nothing is selected.
///
/// # Errors
/// If there is no such experiment, with the nearest id.
pub fn select(ids: &[String]) -> Result<Vec<Experiment>, LabError> {
    let all = all()?;
    if ids.is_empty() {
        return Ok(all);
    }
    let named = |e: &Experiment, id: &str| e.id == id || e.paper.as_deref() == Some(id);
    if let Some(unknown) = ids.iter().find(|id| !all.iter().any(|e| named(e, id))) {
        let papers = all.iter().filter_map(|e| e.paper.as_deref());
        let mut words: Vec<&str> = papers.chain(all.iter().map(|e| e.id.as_str())).collect();
        words.dedup();
        return Err(LabError::Experiment {
            file: unknown.clone(),
            line: 0,
            message: format!("no such experiment{}", nearest(unknown, words)),
        });
    }
    let mut wanted: Vec<bool> = all
        .iter()
        .map(|e| ids.iter().any(|id| named(e, id)))
        .collect();
    // References of references: as many rounds as there are experiments suffice.
    for _ in 0..all.len() {
        for i in 0..all.len() {
            if wanted[i] {
                for id in all[i].references() {
                    for (w, e) in wanted.iter_mut().zip(&all) {
                        *w |= e.id == id;
                    }
                }
            }
        }
    }
    let kept = all.into_iter().zip(wanted).filter(|(_, w)| *w);
    Ok(kept.map(|(e, _)| e).collect())
}

#[cfg(test)]
mod tests;
