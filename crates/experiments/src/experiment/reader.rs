//! Strict reader of the `[experiment]` table of a file.

use windward_core::network::AqmConfig;
use windward_core::protocols::PROTOCOLS;
use windward_sim::keys;
use windward_sim::scenario::Scaling;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::strict_toml::{
    At, Document, Field, KeySource, Result, Section, Spot, TomlType, check as check_keys, readers,
    unnamed,
};
use windward_sim::text::is_formula;

use super::cast::{AGAINST, STANDARDS, SUBJECT, SUBJECTS, is_taken, same_name};
use super::ns2::Ns2;
use super::worlds::{VERDICTS, Worlds};
use super::{
    Asked, Axis, Caption, Cast, Check, Claim, Experiment, Explanation, History, Margin, Metric,
    PlotConfig, PlotKind, Point, Reference, ReferenceLine, Reported, Revision, RunLength, Subject,
    Traced, Unit,
};
use crate::ExperimentError;
use crate::expression::{Cell, Comparison, Expression};
use crate::theory::Formula;
use crate::verdict::Verdict;

mod readings;
mod settings;

use readings::{Beside, SharedReadingKeys};
use settings::{any_kind, settings};

pub(super) use readings::READINGS_FILE;

/// The name of the reserved table.
const TABLE: &str = "experiment";

/// Maximum number of points of an axis.
const MAX_POINTS: usize = 10_000;

/// The declarations of the keys of `[experiment]`.
pub(super) const KEYS: &[KeySource] = &[ExperimentKeys::KEYS];

keys! {
    /// Keys of `[experiment]`.
    struct ExperimentKeys<'a> in "experiment" {
        id: Field<'a> = readers::any(|| TomlType::Text), needed "id = \"delay\"",
            "name of its files and in references: letters, digits, - and _";
        title: String = readers::string(), needed "title = \"Delay by rate\"", "what it shows";
        setting: String = readers::string(), empty, "topology and parameters, in the report";
        choices: Vec<At<String>> = readers::texts(), empty,
            "choices where the paper is silent, with the reason";
        paper: Option<String> = readers::string(), absent, "key of the paper that it reproduces";
        figure: Option<String> = readers::string(), absent, "the paper's figure, as Figure 3";
        quick: Option<Section<'a>> = readers::table(&[LengthKeys::KEYS]), absent,
            "runs of the quick effort: 5 repetitions";
        full: Option<Section<'a>> = readers::table(&[LengthKeys::KEYS]), absent,
            "runs of the full effort: 30 repetitions";
        readings: Vec<Section<'a>> = readers::tables(&[SharedReadingKeys::KEYS], unnamed), empty,
            "choices that the paper leaves open";
        reported: Vec<Section<'a>> = readers::tables(&[ReportedKeys::KEYS], unnamed), empty,
            "numbers of the paper's text about results";
        axes: Vec<Section<'a>> = readers::tables(&[AxisKeys::KEYS], unnamed), empty,
            "varied parameters: the cells are all combinations";
        metrics: Section<'a> = readers::free(TomlType::Text),
            needed "metrics = { rate = \"goodput(bulk)\" }",
            "numbers computed from each run: names and expressions";
        plots: Vec<Section<'a>> = readers::tables(&[PlotKeys::KEYS], unnamed), empty,
            "what is drawn";
        claims: Vec<Section<'a>> = readers::tables(&[ClaimKeys::KEYS], unnamed), empty,
            "what is checked";
    }
}

/// Maximum number of repetitions.
const MOST: u32 = 1_000_000;

keys! {
    /// Keys of `quick` and `full`.
    struct LengthKeys in "length" {
        repetitions: Option<u32> = readers::small(1..=MOST), absent,
            "runs of each cell, each with its own seed";
        at_most: Option<u32> = readers::small(1..=MOST), absent,
            "runs of a cell after which an open check stays open";
        duration: Option<String> = readers::string(), absent, "instead of the scenario's";
        warmup: Option<String> = readers::string(), absent, "instead of the scenario's";
    }

    /// Keys of a reported number.
    struct ReportedKeys<'a> in "reported" {
        value: Field<'a> = readers::any(|| TomlType::Text), needed "value = \"rate[sack, 1%]\"",
            "an expression over metrics at labels, as in checks";
        number: Option<f64> = readers::number(), absent,
            "the paper's number, in the unit of the metric";
        range: Option<(f64, f64)> = readers::bounds(), absent,
            "instead of a number, the range that the paper gives";
        source: String = readers::string(), needed "source = \"section 4\"",
            "where in the paper";
        text: String = readers::string(), needed "text = \"about 5 %\"", "its words";
        digitised: bool = readers::flag(), or false,
            "read off a figure, and not stated in the text";
    }

    /// Keys of an axis.
    struct AxisKeys<'a> in "axis" {
        name: Field<'a> = readers::any(|| TomlType::Text), needed "name = \"loss\"",
            "a column of the tables";
        title: Option<String> = readers::string(), absent "name", "its title in charts";
        key: Vec<At<String>> = readers::texts(), empty,
            "the key of the scenario that is varied, or several";
        labels: Vec<At<String>> = readers::texts(), empty,
            "labels of the values, if they differ from them";
        values: Option<Field<'a>> = readers::any(values_kind), absent,
            "its values, one after the other";
        points: Vec<Section<'a>> = readers::tables(&[PointKeys::KEYS], unnamed), empty,
            "instead of key and values: points that set several keys";
        skip_impossible: bool = readers::flag(), or false,
            "leave out points with an impossible scenario";
    }
}

fn values_kind() -> TomlType {
    let words = vec![ALL_PROTOCOLS, ALL_QUEUES, ALL_AQMS, SUBJECTS, STANDARDS, AGAINST];
    TomlType::OneOf(vec![TomlType::Words(words), TomlType::List(Box::new(any_kind()))])
}

keys! {
    /// Keys of a point of an axis.
    struct PointKeys<'a> in "point" {
        label: String = readers::string(), needed "label = \"small\"",
            "its label in tables, charts and checks";
        set: Section<'a> = readers::free(any_kind()), needed "set = { seed = 1 }",
            "the keys that it sets in the scenario";
    }

    /// Keys of a chart.
    struct PlotKeys<'a> in "plot" {
        kind: &'a str = readers::word(&PLOT_KINDS), needed "kind = \"lines\"", "what is drawn";
        x: Option<Field<'a>> = readers::any(|| TomlType::Text), absent,
            "lines, dots: the axis along the chart";
        metrics: Vec<Field<'a>> = readers::one_or_more(TomlType::Text), empty,
            "lines, dots: the metrics";
        log: bool = readers::flag(), or false, "lines: true for a logarithmic horizontal axis";
        flows: bool = readers::flag(), or false,
            "time: draw each flow; the scenario needs flow_bins";
        groups: Vec<At<String>> = readers::texts(), empty, "time, cwnd: the groups";
        links: Vec<At<String>> = readers::texts(), empty, "queue, signal: the links";
        single: bool = readers::flag(), or false,
            "over time: the first seed alone, not the mean of all";
        unit: Option<Unit> = readers::custom(unit_kind, unit), absent, "unit of the axis of values";
        references: Vec<Section<'a>> = readers::tables(&[ReferenceKeys::KEYS], unnamed), empty,
            "reference lines";
        y_log: bool = readers::flag(), or false, "true for a logarithmic axis of values";
        y: Option<(f64, f64)> = readers::bounds(), absent, "bounds of the axis of values";
        title: Option<String> = readers::string(), absent,
            "title above the chart, if there are several";
        y_title: Option<String> = readers::string(), absent, "label of the axis of values";
        only: Option<Section<'a>> = readers::free(texts_kind()), absent,
            "only the cells with these labels";
    }
}

/// Words for the kinds of charts.
const PLOT_KINDS: [&str; 6] = ["lines", "dots", "time", "cwnd", "queue", "signal"];

fn texts_kind() -> TomlType {
    (readers::texts().kind)()
}

fn unit_kind() -> TomlType {
    TomlType::Words(Unit::ALL.map(|unit| unit.name).to_vec())
}

fn unit(field: &Field<'_>) -> Result<Unit> {
    let name = field.text()?;
    Unit::named(name).ok_or_else(|| field.unknown("unit", name, Unit::ALL.map(|u| u.name)))
}

keys! {
    /// Keys of a reference line.
    struct ReferenceKeys<'a> in "reference" {
        label: Option<String> = readers::string(), absent, "meaning of the line";
        curve: Option<Field<'a>> = readers::any(curve_kind), absent, "a theoretical curve";
        y: Option<f64> = readers::number(), absent, "or a constant, in the unit of the axis";
        group: Option<String> = readers::string(), absent,
            "for a curve: the group, by default the first one of connections";
        link: Option<String> = readers::string(), absent,
            "for a curve: the link, by default the bottleneck of the group";
    }
}

fn curve_kind() -> TomlType {
    TomlType::Words(Formula::ALL.map(|(_, name, _)| name).to_vec())
}

keys! {
    /// Keys of a claim.
    struct ClaimKeys<'a> in "claim" {
        criterion: Option<String> = readers::string(), absent,
            "in an experiment of a suite: its criterion";
        checks: Vec<Field<'a>> = readers::one_or_more(check_kind()), empty,
            "the condition as comparisons: all must hold";
        id: String = readers::string(), needed "id = \"L3\"", "its name, as L3";
        claim: String = readers::string(), needed "claim = \"Sack loses less.\"",
            "the claim of the paper";
        expected: String = readers::string(), needed "expected = \"It loses less everywhere.\"",
            "the condition under which it holds, in words";
        explanation: Option<Field<'a>> = readers::any(|| TomlType::Text), absent,
            "the reason why it does not hold, or not everywhere; measured numbers in braces";
        explains: Vec<Field<'a>> = readers::one_or_more(TomlType::Text), empty,
            "the checks that the explanation is about, as they stand in `checks`";
        edition: u32 = readers::small(1..=MOST), or 1,
            "2 or more: its bound was written after the first results";
        quote: Option<String> = readers::string(), absent, "the sentence of the paper";
        place: Option<String> = readers::string(), absent, "the place of that sentence";
        not_checked: Vec<String> = readers::strings(), empty,
            "parts of that sentence that no check has, each with the reason";
        rewritten: Option<u32> = readers::small(1..=MOST), absent,
            "how often its checks were replaced when results were known";
        before: Option<String> = readers::string(), absent,
            "the former checks or plain values, and what they gave";
        verdict_before: Option<Verdict> = readers::one_of(&VERDICTS), absent,
            "the verdict as it stood in its first edition";
        changed: Option<String> = readers::string(), absent, "what changed and why";
    }
}

/// A comparison, or a table with one.
fn check_kind() -> TomlType {
    TomlType::OneOf(vec![TomlType::Text, TomlType::table(&[CheckKeys::KEYS])])
}

keys! {
    /// Keys of a check.
    struct CheckKeys<'a> in "check" {
        check: Option<String> = readers::string(), absent, "a comparison";
        any: Vec<Field<'a>> = readers::one_or_more(TomlType::Text), empty,
            "comparisons, one of which must hold";
        at: Option<Vec<At<String>>> = readers::texts(), absent, "the labels that * stands for";
        tie: Option<Margin> = readers::custom(margin_kind, margin), absent,
            "largest difference of two values that count as equal";
        edition: Option<u32> = readers::small(1..=MOST), absent,
            "the edition in which it was written; by default that of a claim that was added";
        was: Option<String> = readers::string(), absent,
            "the check that it replaced when results were known";
    }
}

fn margin_kind() -> TomlType {
    TomlType::OneOf(vec![(readers::above_zero(f64::MAX).kind)(), TomlType::Text])
}

pub(super) fn parse(
    name: &str,
    text: &str,
    beside: Beside<'_>,
    cast: Option<&Cast>,
) -> std::result::Result<Experiment, ExperimentError> {
    let document = Document::parse(name, text)?;
    let Some(field) = document.section().get(TABLE) else {
        let message = "no [experiment] table: this is a scenario, which `windward run` runs";
        return Err(ExperimentError::Experiment {
            file: name.to_owned(),
            line: 0,
            message: message.into(),
        });
    };
    if !field.is_table() {
        return Err(field.error("write `experiment` as a table: [experiment]").into());
    }
    let section = field.section()?;
    check_keys(&section, KEYS)?;
    // The scenario reader ignores the reserved table.
    let scenario = ScenarioFile::parse(name, text)
        .map_err(|error| ExperimentError::Scenario { cell: None, error })?
        .without_foreign_tables();
    // The texts of the files of readings are part of the configuration.
    let all = std::cell::RefCell::new(fnv1a(text.as_bytes()));
    let hashing = |from: &str| {
        let text = beside(from)?;
        let mut hash = all.borrow_mut();
        *hash = fnv1a_on(fnv1a_on(*hash, b"\0"), text.as_bytes());
        Ok(text)
    };
    let mut experiment = read(&section, scenario, &hashing, cast)?;
    experiment.revision.configuration_hash = all.into_inner();
    if let Some(cast) = cast {
        let parts = format!("\0{cast:?}");
        experiment.revision.configuration_hash =
            fnv1a_on(experiment.revision.configuration_hash, parts.as_bytes());
    }
    Ok(experiment)
}

fn read(
    section: &Section<'_>,
    scenario: ScenarioFile,
    beside: Beside<'_>,
    cast: Option<&Cast>,
) -> std::result::Result<Experiment, ExperimentError> {
    let keys = ExperimentKeys::read(section)?;
    let id = keys.id.text()?;
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if id.is_empty() || !id.chars().all(valid) {
        let message = "`id` names files: use letters, digits, `-` and `_` only";
        return Err(keys.id.error(message).into());
    }
    let axes = axes(&keys.axes, cast)?;
    let metrics = metrics(&keys.metrics, &axes)?;
    let plots = keys.plots.iter().map(|table| plot(table, &axes, &metrics));
    let plots = plots.collect::<Result<_>>()?;
    let claims = keys.claims.iter().map(|table| claims_of(table, &axes, cast));
    let claims = claims.collect::<Result<Vec<_>>>()?;
    let reported = keys.reported.iter().map(reported).collect::<Result<Vec<_>>>()?;
    let readings = readings::read(section.file(), &keys.readings, beside)?;
    readings::check_axes(section.file(), &readings, &axes)?;
    let experiment = Experiment {
        file: section.file().to_owned(),
        id: id.to_owned(),
        caption: Caption {
            paper: keys.paper,
            figure: keys.figure,
            chapter: None,
            title: keys.title,
            setting: keys.setting,
            choices: keys.choices.into_iter().map(|text| text.value).collect(),
        },
        quick: run_length(keys.quick.as_ref(), 5, QUICK_FACTOR)?,
        full: run_length(keys.full.as_ref(), 30, FULL_FACTOR)?,
        readings,
        reported: reported.iter().map(|(reported, _)| reported.clone()).collect(),
        claims: claims.iter().flatten().map(|(claim, _)| claim.clone()).collect(),
        axes,
        metrics,
        plots,
        scenario,
        worlds: Worlds::default(),
        ns2: Ns2::default(),
        scaling: Scaling::NONE,
        all_readings: false,
        revision: Revision {
            overrides: Vec::new(),
            configuration_hash: 0,
            text_hash: fnv1a(section.text().as_bytes()),
        },
    };
    check_cells(&experiment, &claims.concat(), &reported)?;
    Ok(experiment)
}

/// Ratio of the maximum number of runs of a check to the runs in charts, unless the file gives the
/// maximum.
const QUICK_FACTOR: u32 = 4;
const FULL_FACTOR: u32 = 2;

fn run_length(section: Option<&Section<'_>>, repetitions: u32, factor: u32) -> Result<RunLength> {
    let Some(section) = section else {
        let at_most = repetitions * factor;
        return Ok(RunLength { repetitions, at_most, duration: None, warmup: None });
    };
    let LengthKeys { repetitions: given, at_most, duration, warmup } = LengthKeys::read(section)?;
    let repetitions = given.unwrap_or(repetitions);
    if let Some(at_most) = at_most.filter(|most| *most < repetitions) {
        let message = format!(
            "`at_most` ({at_most}) is below the {repetitions} `repetitions` that are run anyway"
        );
        return Err(section.error(message));
    }
    let at_most = at_most.unwrap_or(repetitions.saturating_mul(factor));
    Ok(RunLength { repetitions, at_most, duration, warmup })
}

/// Reads a number of the paper's text, with its place.
fn reported(table: &Section<'_>) -> Result<(Reported, Spot)> {
    let keys = ReportedKeys::read(table)?;
    let text = keys.value.text()?;
    let value = Expression::parse(text).map_err(|wrong| keys.value.error(wrong))?;
    let range = match (keys.number, keys.range) {
        (Some(number), None) => (number, number),
        (None, Some(range)) => range,
        _ => return Err(table.error("a reported value has either a `number` or a `range`")),
    };
    let reported = Reported {
        text: text.to_owned(),
        value,
        range,
        source: keys.source,
        words: keys.text,
        digitised: keys.digitised,
        line: table.line(),
    };
    Ok((reported, table.spot()))
}

fn axes(tables: &[Section<'_>], cast: Option<&Cast>) -> Result<Vec<Axis>> {
    let mut axes: Vec<Axis> = Vec::new();
    for table in tables {
        let keys = AxisKeys::read(table)?;
        let name = keys.name.text()?;
        check_axis_name(&keys.name, name)?;
        check_column(&keys.name, name, "axis")?;
        if axes.iter().any(|a| same_column(&a.name, name)) {
            return Err(keys.name.error(format!("there are two axes `{name}`")));
        }
        let mut points = swept_values(table, &keys, cast)?;
        for point in &keys.points {
            let PointKeys { label, set } = PointKeys::read(point)?;
            points.push(Point { label, set: settings(&set)? });
        }
        if points.is_empty() || points.len() > MAX_POINTS {
            let message = format!(
                "the axis `{name}` needs 1 to {MAX_POINTS} `values` (with a `key`) or `points`, \
                 not {}",
                points.len()
            );
            return Err(table.error(message));
        }
        for (i, point) in points.iter().enumerate() {
            check_label(table, &point.label)?;
            if points[..i].iter().any(|p| p.label == point.label) {
                return Err(table.error(format!("the axis has two points `{}`", point.label)));
            }
        }
        // A point that is impossible for a subject is skipped.
        let of_subjects =
            keys.values.as_ref().and_then(|values| values.text().ok()) == Some(SUBJECTS);
        axes.push(Axis {
            name: name.to_owned(),
            title: keys.title.unwrap_or_else(|| name.to_owned()),
            points,
            skip_impossible: keys.skip_impossible || of_subjects,
            skipped: Vec::new(),
        });
    }
    Ok(axes)
}

/// Verifies that tables, checks and spreadsheets can contain the label of a point.
fn check_label(table: &Section<'_>, label: &str) -> Result<()> {
    let message = if label.contains(['[', ']', ',', '*']) || label.trim() != label {
        format!("the label `{label}` may not contain `[`, `]`, `,`, `*`, or spaces at its ends")
    } else if label.contains(char::is_control) {
        format!("the label `{}` has a line break or a tab", shown(label))
    } else if is_formula(label) {
        format!(
            "a spreadsheet would compute the label `{label}`: begin it with a letter, a digit, \
             or a number with its sign"
        )
    } else {
        return Ok(());
    };
    Err(table.error(message))
}

/// Reserved columns of tables. Names of axes and metrics are columns too.
const RESERVED: [&str; 4] = ["repetition", "seed", "bin_start_s", "time_s"];

/// True if these names are equal for readers of tables, some of which ignore case.
fn same_column(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

fn check_column(field: &Field<'_>, name: &str, what: &str) -> Result<()> {
    match RESERVED.into_iter().find(|reserved| same_column(reserved, name)) {
        None => Ok(()),
        Some(reserved) => Err(field.error(format!(
            "no {what} can be called `{name}`: every table of results has a column `{reserved}`"
        ))),
    }
}

/// Names have no dots, which the columns of outcomes have.
fn check_axis_name(field: &Field<'_>, name: &str) -> Result<()> {
    let good = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ');
    let starts = name.starts_with(char::is_alphabetic) && !name.ends_with(' ');
    if starts && name.chars().all(good) {
        return Ok(());
    }
    Err(field.error(format!(
        "the axis `{}` names a column: letters, digits, `_`, `-` and spaces, a letter first",
        shown(name)
    )))
}

/// Reads a text of one line.
fn shown(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// The word in `values` for every protocol of the table, in its order.
const ALL_PROTOCOLS: &str = "protocols";
/// The word for every AQM, with marks if it can mark.
const ALL_QUEUES: &str = "queues";
/// The word for every AQM that drops before the queue is full, without settings.
const ALL_AQMS: &str = "aqms";

/// Every AQM by name, as a value of `aqm`.
fn queues() -> Vec<(String, String)> {
    let queue = |name: &str, marks: bool| match marks {
        true => format!("{{ kind = \"{name}\", ecn = true }}"),
        false => name.to_owned(),
    };
    let forms = AqmConfig::forms().into_iter();
    forms
        .map(|(words, spec)| (words.name.to_owned(), queue(words.name, spec.has_ecn_parameter())))
        .collect()
}

/// The labels and values that a word in `values` stands for, if it is one.
fn named_values(field: &Field<'_>, cast: Option<&Cast>) -> Result<Option<Vec<(String, String)>>> {
    let same = |name: &str| (name.to_owned(), name.to_owned());
    Ok(match field.text() {
        Ok(ALL_PROTOCOLS) => Some(PROTOCOLS.iter().map(|p| same(p.name)).collect()),
        Ok(ALL_QUEUES) => Some(queues()),
        Ok(ALL_AQMS) => {
            let forms = AqmConfig::forms().into_iter();
            let acting = forms.filter(|(_, spec)| *spec != AqmConfig::default());
            Some(acting.map(|(words, _)| same(words.name)).collect())
        }
        Ok(word @ (SUBJECTS | STANDARDS | AGAINST)) => {
            let Some(those) = cast.and_then(|cast| cast.of(word)) else {
                return Err(field.error(format!(
                    "`{word}` belongs to a suite, which `windward evaluate` runs; give the \
                     names here"
                )));
            };
            let name = |s: &&Subject| (s.name.clone(), s.protocol.clone());
            Some(those.iter().map(name).collect())
        }
        _ => None,
    })
}

/// `key = ".."` or several of them, `values = [..]` and, if they shall be called otherwise,
/// `labels = [..]`. `values` may also be a word: see [`named_values`].
fn swept_values(
    table: &Section<'_>,
    keys: &AxisKeys<'_>,
    cast: Option<&Cast>,
) -> Result<Vec<Point>> {
    let values: Vec<(String, String)> = match &keys.values {
        None => Vec::new(),
        Some(field) => match named_values(field, cast)? {
            Some(named) => named,
            None => {
                let items = if field.is_array() { field.items()? } else { vec![field.clone()] };
                let own = items.iter().map(Field::as_setting);
                own.map(|value| (value.clone(), value)).collect()
            }
        },
    };
    let AxisKeys { key, labels, .. } = keys;
    if key.is_empty() != values.is_empty() {
        return Err(match key.is_empty() {
            true => table.missing("key", "key = \"flows.*.protocol\""),
            false => table.missing("values", "values = [\"newreno\", \"sack\"]"),
        });
    }
    if !labels.is_empty() && labels.len() != values.len() {
        let message = format!("{} labels for {} values", labels.len(), values.len());
        return Err(table.error_at("labels", message));
    }
    // Tables and checks would confuse such a label with the row.
    let is_protocol = key.iter().any(|key| key.value.ends_with("protocol"));
    for (label, (_, value)) in labels.iter().zip(&values).filter(|_| is_protocol) {
        let row = PROTOCOLS.iter().find(|row| same_name(row.name, &label.value));
        if let Some(row) = row.filter(|row| value != row.name) {
            return Err(table.error_at("labels", is_taken(row.name)));
        }
    }
    let point = |(i, (label, value)): (usize, (String, String))| Point {
        label: labels.get(i).map_or(label, |label| label.value.clone()),
        set: key.iter().map(|key| (key.value.clone(), value.clone())).collect(),
    };
    Ok(values.into_iter().enumerate().map(point).collect())
}

fn metrics(table: &Section<'_>, axes: &[Axis]) -> Result<Vec<Metric>> {
    let mut metrics: Vec<Metric> = Vec::new();
    for (name, field) in table.entries() {
        check_column(&field, name, "metric")?;
        if axes.iter().any(|a| same_column(&a.name, name)) {
            let message = format!("there is an axis `{name}` already, and both name columns");
            return Err(field.error(message));
        }
        if metrics.iter().any(|m| same_column(&m.name, name)) {
            let message = format!("there are two metrics `{name}`, equal except for case");
            return Err(field.error(message));
        }
        let word = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let starts = name.starts_with(|c: char| c.is_alphabetic());
        if !(word && starts) || ["abs", "min", "max"].contains(&name) {
            return Err(field.error(format!("`{name}` cannot name a metric: it must be a word")));
        }
        let expression = Expression::parse(field.text()?).map_err(|wrong| field.error(wrong))?;
        metrics.push(Metric { name: name.to_owned(), expression, line: field.line() });
    }
    if metrics.is_empty() {
        return Err(table.error("`experiment.metrics` is empty: add a metric"));
    }
    Ok(metrics)
}

/// The keys of every chart.
const OF_EVERY_PLOT: [&str; 7] = ["kind", "unit", "references", "y", "title", "y_title", "only"];

/// A kind of chart, with the usual title and unit of its axis of values.
type Drawn = (PlotKind, String, Unit);

fn plot(table: &Section<'_>, axes: &[Axis], metrics: &[Metric]) -> Result<PlotConfig> {
    let keys = PlotKeys::read(table)?;
    let own: &[&str] = match keys.kind {
        "lines" => &["x", "metrics", "log", "y_log"],
        "dots" => &["x", "metrics", "y_log"],
        "time" => &["groups", "flows", "single"],
        "cwnd" => &["groups", "single"],
        _ => &["links", "single"],
    };
    let what = format!("a chart of the kind `{}`", keys.kind);
    table.only(&[own, &OF_EVERY_PLOT].concat(), &what)?;
    let (kind, usual_title, usual_unit) = match keys.kind {
        "lines" | "dots" => of_metrics(table, &keys, axes, metrics)?,
        _ => over_time(table, &keys)?,
    };
    let unit = keys.unit.unwrap_or(usual_unit);
    if let (true, Some((low, _))) = (keys.y_log, keys.y)
        && low <= 0.0
    {
        let message = "with `y_log` the bounds of `y` must be above zero";
        return Err(table.error_at("y", message));
    }
    let references = keys.references.iter().map(|table| reference(table, &kind, unit));
    Ok(PlotConfig {
        references: references.collect::<Result<_>>()?,
        kind,
        title: keys.title,
        y_title: keys.y_title.unwrap_or(usual_title),
        unit,
        y: keys.y,
        only: keys.only.as_ref().map_or(Ok(Vec::new()), |only| self::only(only, axes))?,
        y_log: keys.y_log,
        line: table.line(),
    })
}

/// A chart of metrics against an axis, with lines or without.
fn of_metrics(
    table: &Section<'_>,
    keys: &PlotKeys<'_>,
    axes: &[Axis],
    metrics: &[Metric],
) -> Result<Drawn> {
    let (x, drawn) = (plot_axis(table, keys, axes)?, drawn(table, keys, metrics)?);
    let title = metrics[drawn[0]].name.clone();
    if keys.kind == "dots" {
        return Ok((PlotKind::Dots { x, metrics: drawn }, title, Unit::NONE));
    }
    let mut numbers = axes[x].points.iter().filter_map(Point::quantity);
    if !numbers.any(|(x, _)| !keys.log || x > 0.0) {
        let message = format!("no label of the axis `{}` is a number", axes[x].name);
        return Err(table.error(message));
    }
    Ok((PlotKind::Lines { x, log: keys.log, metrics: drawn }, title, Unit::NONE))
}

/// A chart of a quantity of groups or links over time.
fn over_time(table: &Section<'_>, keys: &PlotKeys<'_>) -> Result<Drawn> {
    let (what, title, unit) = match keys.kind {
        "cwnd" => (Traced::Cwnd, "Congestion window", "packets"),
        "queue" => (Traced::Queue, "Queue", "packets"),
        "signal" => (Traced::Signal, "Router signal", ""),
        _ if keys.flows => (Traced::FlowThroughput, "Throughput", "Mbit/s"),
        _ => (Traced::Throughput, "Throughput", "Mbit/s"),
    };
    let (key, names) = match what.is_of_links() {
        true => ("links", &keys.links),
        false => ("groups", &keys.groups),
    };
    if names.is_empty() {
        return Err(table.missing(key, &format!("{key} = [\"NAME\"]")));
    }
    let names = names.iter().map(|name| name.value.clone()).collect();
    let kind = PlotKind::Time { what, names, single: keys.single };
    Ok((kind, title.to_owned(), Unit::named(unit).unwrap_or(Unit::NONE)))
}

/// The axis along a chart.
fn plot_axis(table: &Section<'_>, keys: &PlotKeys<'_>, axes: &[Axis]) -> Result<usize> {
    let field = keys.x.as_ref().ok_or_else(|| table.missing("x", "x = \"loss\""))?;
    axis_named(field, field.text()?, axes)
}

/// The axis of that name, which is written at `field`.
fn axis_named(field: &Field<'_>, name: &str, axes: &[Axis]) -> Result<usize> {
    let found = axes.iter().position(|axis| axis.name == name);
    found.ok_or_else(|| field.unknown("axis", name, axes.iter().map(|axis| &*axis.name)))
}

/// The metrics of a chart.
fn drawn(table: &Section<'_>, keys: &PlotKeys<'_>, metrics: &[Metric]) -> Result<Vec<usize>> {
    if keys.metrics.is_empty() {
        return Err(table.missing("metrics", "metrics = \"ratio\""));
    }
    let index = |field: &Field<'_>| {
        let name = field.text()?;
        let found = metrics.iter().position(|metric| metric.name == name);
        let names = metrics.iter().map(|metric| &*metric.name);
        found.ok_or_else(|| field.unknown("metric", name, names))
    };
    keys.metrics.iter().map(index).collect()
}

/// `{ y = 3, label = ".." }` or `{ curve = "..", group = "..", link = ".." }`.
fn reference(table: &Section<'_>, chart: &PlotKind, unit: Unit) -> Result<Reference> {
    let ReferenceKeys { label, curve, y, group, link } = ReferenceKeys::read(table)?;
    let Some(curve) = curve else {
        table.only(&["label", "y"], "a line at a height")?;
        let y = y.ok_or_else(|| table.missing("y", "y = 1"))?;
        let label = label.ok_or_else(|| table.missing("label", "label = \"capacity\""))?;
        return Ok(Reference { line: ReferenceLine::Level(y), label });
    };
    table.only(&["label", "curve", "group", "link"], "a curve")?;
    let name = curve.text()?;
    let found = Formula::ALL.into_iter().find(|(_, known, _)| *known == name);
    let names = Formula::ALL.map(|(_, name, _)| name);
    let (formula, _, usual) = found.ok_or_else(|| curve.unknown("curve", name, names))?;
    if matches!(chart, PlotKind::Time { .. }) {
        return Err(table.error("a `curve` is for charts of metrics, not over time"));
    }
    if unit != Unit::NONE && !unit.name.ends_with("bit/s") {
        let message = format!("a `curve` is a rate and has no place on an axis of {}", unit.name);
        return Err(table.error(message));
    }
    let line = ReferenceLine::Curve { formula, group, link };
    Ok(Reference { line, label: label.unwrap_or_else(|| usual.to_owned()) })
}

/// `only = { axis = ["label", ..] }`
fn only(table: &Section<'_>, axes: &[Axis]) -> Result<Vec<(usize, Vec<String>)>> {
    let of_axis = |(key, field): (&str, Field<'_>)| {
        let axis = axis_named(&field, key, axes)?;
        let texts = (readers::texts().read)(&field)?;
        let labels = || axes[axis].points.iter().map(|point| &*point.label);
        let unknown = texts.iter().find(|text| !labels().any(|label| label == text.value));
        if let Some(At { value, .. }) = unknown {
            return Err(field.unknown(&format!("label of the axis `{key}`"), value, labels()));
        }
        if texts.is_empty() {
            return Err(field.error("lists no label"));
        }
        Ok((axis, texts.into_iter().map(|text| text.value).collect()))
    };
    table.entries().map(of_axis).collect()
}

/// A claim, with the place of each of its checks, and then of its explanation.
type ReadClaim = (Claim, Vec<Spot>);

/// The claims of a table: one, or one per subject if it names a criterion.
fn claims_of(table: &Section<'_>, axes: &[Axis], cast: Option<&Cast>) -> Result<Vec<ReadClaim>> {
    let Some(cast) = cast else { return Ok(vec![claim(table, axes, None)?]) };
    let of = |subject: &Subject| claim(table, axes, Some((cast, subject)));
    cast.subjects.iter().map(of).collect()
}

/// The subject of a claim, and the other controllers.
type About<'a> = Option<(&'a Cast, &'a Subject)>;

fn claim(table: &Section<'_>, axes: &[Axis], about: About<'_>) -> Result<ReadClaim> {
    let keys = ClaimKeys::read(table)?;
    let (mut checks, mut spots) = all_checks(table, &keys.checks, axes, about)?;
    check_history(table, &keys)?;
    if keys.rewritten.is_none() {
        // The checks of a claim that was added came with it.
        checks.iter_mut().for_each(|check| check.edition = check.edition.max(keys.edition));
    }
    let explanation = explanation(&keys, axes, about)?;
    spots.extend(keys.explanation.iter().map(Field::spot));
    let asked = match about {
        None => {
            table.forbid(&["criterion"], "only claims of a suite have a criterion")?;
            None
        }
        Some((_, subject)) => Some(Asked {
            of_all: keys.id.clone(),
            subject: subject.name.clone(),
            criterion: keys
                .criterion
                .ok_or_else(|| table.missing("criterion", "criterion = \"fairness\""))?,
        }),
    };
    let claim = Claim {
        id: match &asked {
            Some(asked) => format!("{}@{}", keys.id, asked.subject),
            None => keys.id,
        },
        claim: keys.claim,
        expected: keys.expected,
        checks,
        explanation,
        history: History {
            edition: keys.edition,
            rewritten: keys.rewritten.unwrap_or(0),
            verdict_before: keys.verdict_before,
            before: keys.before,
            changed: keys.changed,
            quote: keys.quote,
            place: keys.place,
            not_checked: keys.not_checked,
        },
        asked,
    };
    Ok((claim, spots))
}

/// The checks of `checks` in a table, at least one, each with its place.
fn all_checks(
    table: &Section<'_>,
    fields: &[Field<'_>],
    axes: &[Axis],
    about: About<'_>,
) -> Result<(Vec<Check>, Vec<Spot>)> {
    let mut checks: Vec<Check> = Vec::new();
    let mut spots = Vec::new();
    for field in fields {
        let of_field = checks_of(field, axes, about)?;
        spots.extend(of_field.iter().map(|_| field.spot()));
        checks.extend(of_field);
    }
    if checks.is_empty() {
        return Err(table.missing("checks", "checks = [\"rate[sack] > rate[reno]\"]"));
    }
    contradictions(&checks, &spots)?;
    Ok((checks, spots))
}

/// The explanation of a claim, with the checks that it is about: one that names a check that is not
/// there any more is out of date.
fn explanation(
    keys: &ClaimKeys<'_>,
    axes: &[Axis],
    about: About<'_>,
) -> Result<Option<Explanation>> {
    let Some(field) = &keys.explanation else {
        return match keys.explains.first() {
            Some(check) => Err(check.error("`explains` needs an `explanation`")),
            None => Ok(None),
        };
    };
    let mut texts = Vec::new();
    for check in &keys.checks {
        texts.extend(texts_of(check)?);
    }
    let mut explains = Vec::new();
    for name in &keys.explains {
        let text = name.text()?;
        if !texts.contains(&text) {
            let message = "the claim has no such check: see whether the explanation is still true";
            return Err(name.error(message));
        }
        explains.push(text.to_owned());
    }
    let read = |text: &str| {
        let checks = expand(field, &format!("{text} >= 0"), None, axes, about)?;
        match &checks[..] {
            [check] => Ok(check.any[0].1.left.clone()),
            _ => Err(field.error(format!("`{text}` has no single value"))),
        }
    };
    let unmatched = |message: &str| field.error(message);
    Explanation::parse(field.text()?, explains, unmatched, read).map(Some)
}

/// The comparisons of an element of `checks`, as written.
fn texts_of<'a>(field: &Field<'a>) -> Result<Vec<&'a str>> {
    if field.is_text() {
        return Ok(vec![field.text()?]);
    }
    let table = field.section()?;
    let (check, any) = (table.get("check"), table.get("any"));
    let list = any.map(|any| any.items()).transpose()?.unwrap_or_default();
    check.iter().chain(&list).map(Field::text).collect()
}

/// Verifies that a claim whose checks or plain values have changed says what they were, what they
/// gave and why they changed. A changed check is only credible beside the sentence that asks for
/// it.
fn check_history(table: &Section<'_>, keys: &ClaimKeys<'_>) -> Result<()> {
    let rewritten = keys.rewritten.is_some();
    let changed = rewritten || keys.changed.is_some() || keys.before.is_some();
    let needed = [
        (changed, keys.before.is_some(), "before", "the former checks"),
        (changed, keys.verdict_before.is_some(), "verdict_before", "not held"),
        (changed, keys.changed.is_some(), "changed", "what changed and why"),
        (rewritten || keys.place.is_some(), keys.quote.is_some(), "quote", "the sentence"),
        (keys.quote.is_some(), keys.place.is_some(), "place", "section 4.4"),
    ];
    if let Some((.., key, example)) = needed.iter().find(|(needed, there, ..)| *needed && !there) {
        return Err(table.missing(key, &format!("{key} = \"{example}\"")));
    }
    if !changed {
        return table.forbid(&["verdict_before"], "only a claim that has changed has one");
    }
    if rewritten && keys.edition < 2 {
        let message = "the checks of edition 1 are the first: give the present `edition`";
        return Err(table.error_at("rewritten", message));
    }
    Ok(())
}

/// The checks of an element of `checks`.
fn checks_of(field: &Field<'_>, axes: &[Axis], about: About<'_>) -> Result<Vec<Check>> {
    if field.is_text() {
        return expand(field, field.text()?, None, axes, about);
    }
    if !field.is_table() {
        let help = "a check is a text in quotes, { check = \"..\", at = [..] } or { any = [..] }";
        return Err(field.expected("a check").with_help(help));
    }
    let table = field.section()?;
    let CheckKeys { check, any, at, tie, edition, was } = CheckKeys::read(&table)?;
    let mut checks = if any.is_empty() {
        let missing = || table.missing("check", "check = \"rate[sack] > rate[reno]\"");
        let at = at.map(|at| at.into_iter().map(|text| text.value).collect::<Vec<_>>());
        expand(field, &check.ok_or_else(missing)?, at.as_deref(), axes, about)?
    } else {
        table.only(&["any", "tie", "edition", "was"], "a check of which one must hold")?;
        vec![alternatives(field, &any, about)?]
    };
    if was.is_some() && edition.is_none_or(|edition| edition < 2) {
        return Err(table.error_at("was", "a check that replaces another has a later `edition`"));
    }
    for check in &mut checks {
        check.tie = tie;
        check.was.clone_from(&was);
        check.edition = edition.unwrap_or(1);
    }
    Ok(checks)
}

/// Verifies that no two bounds of the same value exclude each other.
fn contradictions(checks: &[Check], spots: &[Spot]) -> Result<()> {
    let single = |(check, spot): (&Check, &Spot)| match &check.any[..] {
        [(text, comparison)] => Some((text.clone(), comparison.clone(), spot.clone())),
        _ => None,
    };
    let bounds: Vec<_> = checks.iter().zip(spots).filter_map(single).collect();
    for (i, (text, comparison, spot)) in bounds.iter().enumerate() {
        let Some(bound) = comparison.right.constant() else { continue };
        for (other_text, other, _) in &bounds[..i] {
            let Some(other_bound) = other.right.constant() else { continue };
            if other.left != comparison.left {
                continue;
            }
            let empty = match (comparison.relation.is_lower(), other.relation.is_lower()) {
                (true, false) => bound > other_bound,
                (false, true) => bound < other_bound,
                _ => false,
            };
            if empty {
                let message = format!(
                    "`{text}` and `{other_text}` contradict each other: no value meets both"
                );
                return Err(spot.error(message));
            }
        }
    }
    Ok(())
}

/// `tie = 0.02`, in the unit of the metric, or `tie = "5%"` of the larger side.
fn margin(field: &Field<'_>) -> Result<Margin> {
    let wrong = || field.error("must be a number above zero, or a share such as \"5%\"");
    let (number, make): (f64, fn(f64) -> Margin) = match field.text() {
        Ok(text) => {
            let percent = text.strip_suffix('%').and_then(|text| text.trim().parse().ok());
            (percent.map(|percent: f64| percent / 100.0).ok_or_else(wrong)?, Margin::Share)
        }
        Err(_) => ((readers::number().read)(field).map_err(|_| wrong())?, Margin::Absolute),
    };
    if number.is_finite() && number > 0.0 { Ok(make(number)) } else { Err(wrong()) }
}

/// Expands the labels `*` and `**`. A check with `*` becomes one check per label in `at`, or per
/// label of the axis. `**` inside `min`, `max` or `mean` stands for all labels of its axis at once.
fn expand(
    field: &Field<'_>,
    text: &str,
    at: Option<&[String]>,
    axes: &[Axis],
    about: About<'_>,
) -> Result<Vec<Check>> {
    let line = field.line();
    let error = |message: String| field.error(message);
    let (text, pattern) = comparison(text, about).map_err(&error)?;
    let mut pattern = pattern.map(&|cell| standing_in(cell, axes, about));
    let text = &*text;
    let instead = |cell: &Cell, at: usize, label: &String| {
        let mut cell = cell.clone();
        cell.labels[at].clone_from(label);
        cell
    };
    let is = |cell: &Cell, at: usize, what: &str| cell.labels.get(at).is_some_and(|l| l == what);
    for (at, axis) in axes.iter().enumerate() {
        let changes = axis.points.iter().map(|point| {
            move |cell: &Cell| match is(cell, at, "**") {
                true => instead(cell, at, &point.label),
                false => cell.clone(),
            }
        });
        let changes: Vec<_> = changes.collect();
        pattern = pattern.spread(&|cell| is(cell, at, "**"), &changes);
    }
    let stars = |cell: &Cell| cell.labels.iter().position(|l| l == "*");
    let star = pattern.cells().into_iter().find_map(stars);
    if pattern.cells().into_iter().any(|cell| cell.labels.iter().any(|l| l == "**")) {
        return Err(error("`**` stands inside `min(..)`, `max(..)` or `mean(..)`".to_owned()));
    }
    let labels = match (star, at) {
        (None, None) => {
            return Ok(vec![Check::of(vec![(text.to_owned(), pattern)], line)]);
        }
        (None, Some(_)) => return Err(error("`at` needs a check with a `*`".to_owned())),
        (Some(_), Some([])) => return Err(error("`at` is empty".to_owned())),
        (Some(_), Some(at)) => at.to_vec(),
        (Some(axis), None) => match axes.get(axis) {
            Some(axis) => axis.points.iter().map(|p| p.label.clone()).collect(),
            None => return Err(error("there is no axis for `*`".to_owned())),
        },
    };
    let checks = labels.into_iter().map(|label| {
        let comparison = pattern.map(&|cell| match stars(cell) {
            Some(at) => instead(cell, at, &label),
            None => cell.clone(),
        });
        Check::of(vec![(with_label(text, "*", &label), comparison)], line)
    });
    Ok(checks.collect())
}

/// `any = ["..", ".."]`: one of them must hold.
fn alternatives(field: &Field<'_>, texts: &[Field<'_>], about: About<'_>) -> Result<Check> {
    let parse =
        |text: &Field<'_>| comparison(text.text()?, about).map_err(|wrong| text.error(wrong));
    let any = texts.iter().map(parse).collect::<Result<_>>()?;
    Ok(Check::of(any, field.line()))
}

/// A check in which the subject replaces `subject`, and all standards replace `standards` inside
/// `min`, `max` and `mean`.
fn comparison(text: &str, about: About<'_>) -> std::result::Result<(String, Comparison), String> {
    let read = Comparison::parse(text)?;
    let Some((cast, subject)) = about else { return Ok((text.to_owned(), read)) };
    let instead = |cell: &Cell, word: &str, name: &str| {
        let mut cell = cell.clone();
        for label in cell.labels.iter_mut().filter(|label| *label == word) {
            name.clone_into(label);
        }
        cell
    };
    let read = read.map(&|cell| instead(cell, SUBJECT, &subject.name));
    let all: Vec<_> = cast
        .standards_of(subject)
        .into_iter()
        .map(|standard| move |cell: &Cell| instead(cell, STANDARDS, &standard.name))
        .collect();
    let concerned = |cell: &Cell| cell.labels.iter().any(|label| label == STANDARDS);
    let read = read.spread(&concerned, &all);
    if read.cells().into_iter().any(concerned) {
        return Err(format!("`{STANDARDS}` stands inside `min(..)`, `max(..)` or `mean(..)`"));
    }
    Ok((with_label(text, SUBJECT, &subject.name), read))
}

/// The cell with the standards that the subject is compared with in place of one of the suite that
/// takes no part: the one of that name on the subject's stack, or else the first.
fn standing_in(cell: &Cell, axes: &[Axis], about: About<'_>) -> Cell {
    let mut cell = cell.clone();
    let Some((cast, subject)) = about else { return cell };
    for (label, axis) in cell.labels.iter_mut().zip(axes) {
        let is_known = label.starts_with('*') || axis.points.iter().any(|p| p.label == *label);
        if is_known || !axis.skip_impossible || PROTOCOLS.iter().all(|row| row.name != *label) {
            continue;
        }
        let standards = cast.standards_of(subject);
        let same = |s: &&&Subject| s.host().is_some() && s.name.ends_with(&format!(":{label}"));
        if let Some(other) = standards.iter().find(same).or(standards.first()) {
            label.clone_from(&other.name);
        }
    }
    cell
}

/// The text with every label `word` replaced.
fn with_label(text: &str, word: &str, label: &str) -> String {
    let word = |piece: &str| match piece.trim() == word {
        true => piece.replace(word, label),
        false => piece.to_owned(),
    };
    let mut pieces = text.split('[');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (labels, rest) = piece.split_once(']').unwrap_or((piece, ""));
        let labels: Vec<String> = labels.split(',').map(word).collect();
        out += &format!("[{}]{rest}", labels.join(","));
    }
    out
}

/// Verifies that the cells of all checks and reported numbers exist, as far as they belong to this
/// experiment.
fn check_cells(
    experiment: &Experiment,
    claims: &[ReadClaim],
    reported: &[(Reported, Spot)],
) -> Result<()> {
    let exists = |cell: &Cell, spot: &Spot| match cell
        .experiment
        .as_ref()
        .is_none_or(|id| *id == experiment.id)
    {
        true => experiment.find(cell).map(drop).map_err(|wrong| spot.error(wrong)),
        false => Ok(()),
    };
    for (claim, spots) in claims {
        for (check, spot) in claim.checks.iter().zip(spots) {
            check.cells().into_iter().try_for_each(|cell| exists(cell, spot))?;
        }
        let explained = claim.explanation.iter().flat_map(Explanation::values);
        if let Some(spot) = spots.last() {
            explained.flat_map(Expression::leaves).try_for_each(|cell| exists(cell, spot))?;
        }
    }
    reported.iter().try_for_each(|(reported, spot)| {
        reported.value.leaves().into_iter().try_for_each(|cell| exists(cell, spot))
    })
}

/// FNV-1a with 64 bits.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    fnv1a_on(0xcbf2_9ce4_8422_2325, bytes)
}

/// Continues the hash with further bytes.
pub(super) fn fnv1a_on(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
