use super::*;
use crate::experiment::Effort;

#[test]
fn every_experiment_reads_and_plans() {
    let all = all().unwrap();
    crate::claims::check_references(&all).unwrap();
    for experiment in &all {
        for effort in [Effort::Quick, Effort::Full] {
            let plan = experiment.plan(&effort).unwrap();
            assert_eq!(plan.scenarios.len(), plan.experiment.cells());
        }
        assert!(!experiment.choices.is_empty(), "{}", experiment.id);
        assert!(!experiment.plots.is_empty(), "{}", experiment.id);
        if experiment.paper.is_some() {
            assert!(experiment.full.repetitions >= 30, "{}", experiment.id);
        }
    }
}

#[test]
fn every_experiment_stands_in_one_collection_and_has_a_name_of_its_own() {
    let mut ids = Vec::new();
    for collection in collections() {
        for experiment in collection.experiments().unwrap() {
            let found = collection_of(&experiment).unwrap();
            assert_eq!(found.key, collection.key, "{}", experiment.file);
            let prefix = format!("{}-", collection.key);
            assert!(experiment.id.starts_with(&prefix), "{} in {}", experiment.id, collection.key);
            ids.push(experiment.id);
        }
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

/// How many claims each paper makes, and the letter they begin with.
const CLAIMS: [(&str, char, u32); 5] = [
    ("lr2008", 'L', 14),
    ("xcpr2005", 'R', 6),
    ("estcp2010", 'S', 5),
    ("eten2004", 'E', 7),
    ("tcpwbr2003", 'W', 6),
];

#[test]
fn a_paper_with_experiments_has_checks_for_each_of_its_claims() {
    let mut seen = 0;
    for (paper, (key, letter, count)) in PAPERS.into_iter().zip(CLAIMS) {
        assert_eq!(paper.key, key);
        let experiments = paper.experiments().unwrap();
        if experiments.is_empty() {
            continue;
        }
        seen += 1;
        let claims = experiments.iter().flat_map(|e| &e.claims);
        let mut ids: Vec<&str> = claims.map(|c| c.id.as_str()).collect();
        ids.sort_by_key(|id| id[1..].parse::<u32>().unwrap());
        let expected: Vec<String> = (1..=count).map(|n| format!("{letter}{n}")).collect();
        assert_eq!(ids, expected, "{key}");
    }
    assert!(seen > 0);
}

fn ids(wanted: &[&str]) -> Vec<String> {
    let wanted: Vec<String> = wanted.iter().map(|w| (*w).to_owned()).collect();
    select(&wanted).unwrap().into_iter().map(|e| e.id).collect()
}

#[test]
fn selection_brings_what_claims_refer_to() {
    // L10 in Fig. 8 compares with Fig. 3.
    assert_eq!(ids(&["lr2008-fig8"]), ["lr2008-fig3", "lr2008-fig8"]);
    assert_eq!(ids(&["lr2008-fig2"]), ["lr2008-fig2"]);
    assert_eq!(ids(&["L5"]), ["lr2008-fig4"]);
    assert_eq!(ids(&["lr2008"]).len(), PAPERS[0].files.len());
    let error = select(&["lr2008-fig33".to_owned()]).unwrap_err().to_string();
    assert!(error.contains("did you mean `lr2008-fig3`?"), "{error}");
}

#[test]
fn field_experiments_run_only_when_asked_for() {
    let count = |collections: &[&Collection]| collections.iter().map(|c| c.files.len()).sum();
    let papers: usize = count(&PAPERS);
    assert_eq!(ids(&[]).len(), papers + count(&[MATRIX]));
    assert_eq!(ids(&["all"]).len(), papers + count(&[MATRIX, FIELD]));
    assert!(ids(&[]).iter().all(|id| !id.starts_with("field")));
    assert_eq!(ids(&["field"]).len(), FIELD.files.len());
    assert_eq!(ids(&["field-geo"]), ["field-geo"]);
}
