use super::*;
use crate::experiment::Effort;

#[test]
fn every_experiment_of_the_papers_reads_and_plans() {
    let all = all().unwrap();
    crate::claims::check_references(&all).unwrap();
    for experiment in &all {
        for effort in [Effort::Quick, Effort::Full] {
            let plan = experiment.plan(&effort).unwrap();
            assert_eq!(plan.scenarios.len(), experiment.cells());
        }
        assert!(experiment.full.repetitions >= 30, "{}", experiment.id);
        assert!(!experiment.choices.is_empty(), "{}", experiment.id);
        assert!(!experiment.plots.is_empty(), "{}", experiment.id);
    }
}

#[test]
fn every_claim_of_the_ledger_has_its_checks() {
    let all = all().unwrap();
    let mut ids: Vec<&str> = all
        .iter()
        .flat_map(|e| &e.claims)
        .map(|c| c.id.as_str())
        .collect();
    ids.sort_by_key(|id| id[1..].parse::<u32>().unwrap());
    let expected: Vec<String> = (1..=14).map(|n| format!("L{n}")).collect();
    assert_eq!(ids, expected);
}

#[test]
fn selection_brings_what_claims_refer_to() {
    let ids = |wanted: &[&str]| -> Vec<String> {
        let wanted: Vec<String> = wanted.iter().map(|w| (*w).to_owned()).collect();
        select(&wanted).unwrap().into_iter().map(|e| e.id).collect()
    };
    // L10 in Fig. 8 compares with Fig. 3.
    assert_eq!(ids(&["lr2008-fig8"]), ["lr2008-fig3", "lr2008-fig8"]);
    assert_eq!(ids(&["lr2008-fig2"]), ["lr2008-fig2"]);
    assert_eq!(ids(&["lr2008"]).len(), FILES.len());
    let error = select(&["lr2008-fig33".to_owned()])
        .unwrap_err()
        .to_string();
    assert!(error.contains("did you mean `lr2008-fig3`?"), "{error}");
}
