use super::*;
use crate::testing::{TEXT, experiment};

fn planned(changes: &[(&str, &str)]) -> crate::Plan {
    let text = TEXT.replace(
        "quick = { repetitions = 3 }",
        "quick = { repetitions = 3, duration = \"8s\", warmup = \"2s\" }",
    );
    let mut experiment = Experiment::parse("mine.toml", &text).unwrap();
    for (key, value) in changes {
        experiment.set(key, value).unwrap();
    }
    experiment.plan(&Effort::Quick).unwrap()
}

fn refused(key: &str, value: &str) -> String {
    experiment().set(key, value).unwrap_err().to_string()
}

#[test]
fn settings_override_the_lengths() {
    let (plain, changed) = (planned(&[]), planned(&[("duration", "4s"), ("warmup", "1s")]));
    let lengths = |plan: &crate::Plan| {
        let scenario = &plan.scenarios[5];
        (scenario.duration.as_secs_f64(), scenario.warmup.as_secs_f64())
    };
    assert_eq!(lengths(&plain), (8.0, 2.0));
    assert_eq!(lengths(&changed), (4.0, 1.0));
    assert_eq!(changed.length.duration.as_deref(), Some("4s"));
    assert_ne!(
        plain.experiment.revision.configuration_hash,
        changed.experiment.revision.configuration_hash
    );
}

#[test]
fn what_an_axis_sets_cannot_be_changed() {
    // Under each name: all flows, one group, its number, the table around the key.
    for (key, value, axis) in [
        ("flows.*.protocol", "cubic", "protocol"),
        ("flows.lossy.protocol", "cubic", "protocol"),
        ("flows.1.protocol", "cubic", "protocol"),
        ("dumbbell.bottleneck.rate", "3Mbit", "rate"),
        ("dumbbell.bottleneck", "{ rate = \"3Mbit\", delay = \"20ms\" }", "rate"),
    ] {
        let said = refused(key, value);
        assert!(said.starts_with(&format!("mine.toml: --set {key}={value} would")), "{said}");
        assert!(said.contains(&format!("the axis `{axis}` sets")), "{said}");
    }
    let mut free = experiment();
    free.set("flows.lossy.dupack_threshold", "4").unwrap();
    free.set("dumbbell.bottleneck.delay", "30ms").unwrap();
    assert_eq!(free.revision.overrides.len(), 2);
}

#[test]
fn impossible_keys_are_refused_as_by_a_run() {
    let said = refused("flows.losy.dupack_threshold", "4");
    let mut scenario = experiment().scenario;
    let by_run = scenario.set("flows.losy.dupack_threshold", "4").unwrap_err().to_string();
    assert_eq!(said, by_run);
}

#[test]
fn the_command_says_all_that_was_asked_for() {
    let mut own = experiment();
    own.file = "it's mine.toml".to_owned();
    own.set("flows.*.dupack_threshold", "4").unwrap();
    own.set("seed", "9").unwrap();
    assert_eq!(
        own.command(&Effort::Full),
        r"windward sweep 'it'\''s mine.toml' --full --set 'flows.*.dupack_threshold=4' --set seed=9"
    );
    let mut own = experiment();
    let twice = RunLength { repetitions: 2, ..own.quick.clone() };
    // The lengths of its `quick` and `full` are the same; the judged readings are not.
    let custom = |full, length: &RunLength| Effort::Custom { full, length: length.clone() };
    assert_eq!(
        own.command(&custom(false, &twice)),
        "windward sweep mine.toml --quick --repetitions 2"
    );
    assert_eq!(
        own.command(&custom(true, &twice)),
        "windward sweep mine.toml --full --repetitions 2"
    );
    let other = RunLength { duration: Some("4 s".into()), ..twice };
    assert_eq!(
        own.command(&custom(false, &other)),
        "windward sweep mine.toml --quick --set 'duration=4 s' --repetitions 2"
    );
    own.all_readings = true;
    assert_eq!(
        own.command(&custom(false, &other)),
        "windward sweep mine.toml --quick --all-readings --set 'duration=4 s' --repetitions 2"
    );
    assert_eq!(own.command(&Effort::Quick), "windward sweep mine.toml --quick --all-readings");
    assert_eq!(own.command(&Effort::Full), "windward sweep mine.toml --full --all-readings");
}

#[test]
fn only_the_very_file_is_reproduced_by_its_name() {
    // One without readings, which a test would not find beside it.
    let (name, text) = crate::builtin::MATRIX.files[0];
    let mut own = Experiment::parse(name, text).unwrap();
    assert_eq!(own.command(&Effort::Quick), format!("windward reproduce {} --quick", own.id));
    own.set("seed", "3").unwrap();
    assert_eq!(
        own.command(&Effort::Quick),
        format!("windward reproduce {} --quick --set seed=3", own.id)
    );
    // It still names the paper and the figure, but is another experiment.
    let changed = Experiment::parse(name, &text.replacen("seed = ", "seed = 1", 1)).unwrap();
    assert_eq!(changed.command(&Effort::Quick), format!("windward sweep {name} --quick"));
}

#[test]
fn a_copy_beside_other_readings_is_another_experiment() {
    let paper = crate::builtin::PAPERS[0];
    let (name, text) = paper.files[0];
    let read = |more: &str| {
        let beside = |from: &str| {
            let found = paper.beside.iter().find(|(name, _)| name.ends_with(from));
            Ok(format!("{}{more}", found.unwrap().1))
        };
        Experiment::parse_beside(name, text, &beside).unwrap()
    };
    let mut same = read("");
    assert!(!same.readings.is_empty());
    same.set("seed", "3").unwrap();
    assert_eq!(
        same.command(&Effort::Full),
        format!("windward reproduce {} --full --set seed=3", same.id)
    );
    assert_eq!(read("# Mine.\n").command(&Effort::Full), format!("windward sweep {name} --full"));
}
