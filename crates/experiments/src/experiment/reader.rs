//! Reads the `[experiment]` table of a file, strictly.

use toml_edit::{Document, InlineTable, Item, Value};
use windward_core::network::AqmConfig;
use windward_core::part::{AnyPart, Words};
use windward_core::protocols::PROTOCOLS;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::text::is_formula;

use super::cast::{AGAINST, STANDARDS, SUBJECT, SUBJECTS, is_taken, same_name};
use super::{
    Asked, Axis, Cast, Check, Claim, Experiment, Margin, Metric, PlotConfig, PlotKind, Point,
    Reference, ReferenceLine, Reported, RunLength, Subject, Traced, Unit,
};
use crate::LabError;
use crate::error::nearest;
use crate::expression::{Cell, Comparison, Expression};
use crate::strict_toml::{At, Section, Source};
use crate::theory::Law;

mod readings;

use readings::Beside;

/// The name of the reserved table.
const TABLE: &str = "experiment";

/// More points than this on one axis are a mistake.
const MAX_POINTS: usize = 10_000;

pub(super) fn parse(
    name: &str,
    text: &str,
    beside: Beside<'_>,
    cast: Option<&Cast>,
) -> Result<Experiment, LabError> {
    let source = Source { name, text };
    let document =
        Document::parse(text).map_err(|e| source.error(source.line(e.span()), e.message()))?;
    let item = document.as_table().get(TABLE).ok_or_else(|| {
        let message = "no [experiment] table: this is a scenario, which `windward run` runs";
        source.error(0, message)
    })?;
    let inline = !item.is_table() || item.as_table().is_some_and(toml_edit::Table::is_dotted);
    if inline {
        let line = source.line(item.span());
        return Err(source.error(line, "write `experiment` as a table: [experiment]"));
    }
    // The scenario reader knows the table as reserved and leaves it alone.
    let scenario = ScenarioFile::parse(name, text)
        .map_err(|error| LabError::Scenario { cell: None, error })?;
    let section = Section::new(source, TABLE, item)?;
    // What the files beside it say is part of the configuration.
    let all = std::cell::RefCell::new(fnv1a(text.as_bytes()));
    let hashing = |from: &str| {
        let text = beside(from)?;
        let mut hash = all.borrow_mut();
        *hash = fnv1a_on(fnv1a_on(*hash, b"\0"), text.as_bytes());
        Ok(text)
    };
    let mut experiment = read(source, &section, scenario, &hashing, cast)?;
    experiment.configuration_hash = all.into_inner();
    if let Some(cast) = cast {
        let parts = format!("\0{cast:?}");
        experiment.configuration_hash = fnv1a_on(experiment.configuration_hash, parts.as_bytes());
    }
    section.finish()?;
    check_cells(source, &experiment)?;
    Ok(experiment)
}

fn read(
    source: Source<'_>,
    section: &Section<'_>,
    scenario: ScenarioFile,
    beside: Beside<'_>,
    cast: Option<&Cast>,
) -> Result<Experiment, LabError> {
    let id = section.needed_text("id")?;
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if id.value.is_empty() || !id.value.chars().all(valid) {
        let message =
            format!("`id` names files: letters, digits, `-` and `_` only, not `{}`", id.value);
        return Err(source.error(id.line, message));
    }
    let optional = |key| Ok::<_, LabError>(section.text(key)?.map(|t| t.value));
    let texts = section.texts("choices")?;
    let axes = axes(source, section, cast)?;
    let metrics = metrics(source, section, &axes)?;
    let plots = section.sections("plots")?;
    let plots = plots.into_iter().map(|s| plot(source, s, &axes, &metrics));
    let plots = plots.collect::<Result<_, _>>()?;
    let claims = section.sections("claims")?;
    let claims = claims.into_iter().map(|s| claims_of(source, s, &axes, cast));
    let claims = claims.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    let reported = section.sections("reported")?;
    let reported = reported.into_iter().map(|s| self::reported(source, s));
    Ok(Experiment {
        file: source.name.to_owned(),
        id: id.value,
        paper: optional("paper")?,
        figure: optional("figure")?,
        chapter: None,
        title: section.needed_text("title")?.value,
        setting: optional("setting")?.unwrap_or_default(),
        choices: texts.into_iter().map(|t| t.value).collect(),
        quick: run_length(section, "quick", 5, QUICK_FACTOR)?,
        full: run_length(section, "full", 30, FULL_FACTOR)?,
        readings: readings::read(source, section, beside)?,
        reported: reported.collect::<Result<_, _>>()?,
        claims,
        axes,
        metrics,
        plots,
        scenario,
        overrides: Vec::new(),
        all_readings: false,
        configuration_hash: 0,
        text_hash: fnv1a(source.text.as_bytes()),
    })
}

/// By how much a check may be repeated more often than charts show, unless the file says so.
const QUICK_FACTOR: u32 = 4;
const FULL_FACTOR: u32 = 2;

fn run_length(
    section: &Section<'_>,
    key: &'static str,
    repetitions: u32,
    factor: u32,
) -> Result<RunLength, LabError> {
    let at_most = repetitions * factor;
    let mut length = RunLength { repetitions, at_most, duration: None, warmup: None };
    if let Some(table) = section.section(key)? {
        if let Some(n) = table.count("repetitions", 1)? {
            length.repetitions = n.value;
            length.at_most = n.value.saturating_mul(factor);
        }
        if let Some(n) = table.count("at_most", 1)? {
            if n.value < length.repetitions {
                let message = format!(
                    "`at_most` ({}) is below the {} `repetitions` that are run anyway",
                    n.value, length.repetitions
                );
                return Err(table.error(message));
            }
            length.at_most = n.value;
        }
        length.duration = table.text("duration")?.map(|t| t.value);
        length.warmup = table.text("warmup")?.map(|t| t.value);
        table.finish()?;
    }
    Ok(length)
}

/// `[[experiment.reported]]`: a number of the paper's text.
fn reported(source: Source<'_>, table: Section<'_>) -> Result<Reported, LabError> {
    let text = table.needed_text("value")?;
    let value = Expression::parse(&text.value)
        .map_err(|e| source.error(text.line, format!("`{}`: {e}", text.value)))?;
    let range = match (table.number("number")?, table.bounds("range")?) {
        (Some(number), None) => (number.value, number.value),
        (None, Some(range)) => range,
        _ => return Err(table.error("a reported value has either a `number` or a `range`")),
    };
    let reported = Reported {
        text: text.value,
        value,
        range,
        source: table.needed_text("source")?.value,
        words: table.needed_text("text")?.value,
        line: table.line,
    };
    table.finish()?;
    Ok(reported)
}

fn axes(
    source: Source<'_>,
    section: &Section<'_>,
    cast: Option<&Cast>,
) -> Result<Vec<Axis>, LabError> {
    let mut axes: Vec<Axis> = Vec::new();
    for table in section.sections("axes")? {
        let name = table.needed_text("name")?;
        check_axis_name(source, &name)?;
        check_column(source, &name, "axis")?;
        if axes.iter().any(|a| same_column(&a.name, &name.value)) {
            let message = format!("there are two axes `{}`", name.value);
            return Err(source.error(name.line, message));
        }
        let title = table.text("title")?.map_or_else(|| name.value.clone(), |t| t.value);
        let mut points = swept_values(source, &table, cast)?;
        for point in table.sections("points")? {
            let label = point.needed_text("label")?.value;
            let set = match point.section("set")? {
                Some(set) => settings(source, &set)?,
                None => return Err(point.missing("set")),
            };
            point.finish()?;
            points.push(Point { label, set });
        }
        if points.is_empty() || points.len() > MAX_POINTS {
            let message = format!(
                "the axis `{}` needs 1 to {MAX_POINTS} `values` (with a `key`) or `points`, not {}",
                name.value,
                points.len()
            );
            return Err(table.error(message));
        }
        for (i, point) in points.iter().enumerate() {
            let forbidden = ['[', ']', ',', '*'];
            if point.label.contains(forbidden) || point.label.trim() != point.label {
                let message = format!(
                    "the label `{}` may not contain `[`, `]`, `,`, `*`, or spaces at its ends",
                    point.label
                );
                return Err(table.error(message));
            }
            if point.label.contains(char::is_control) {
                let label = shown(&point.label);
                let message = format!("the label `{label}` has a line break or a tab");
                return Err(table.error(message));
            }
            if is_formula(&point.label) {
                let message = format!(
                    "a spreadsheet would compute the label `{}`: begin it with a letter, a digit, \
                     or a number with its sign",
                    point.label
                );
                return Err(table.error(message));
            }
            if points[..i].iter().any(|p| p.label == point.label) {
                let message = format!("the axis has two points `{}`", point.label);
                return Err(table.error(message));
            }
        }
        // What cannot be asked of a subject is not asked of it.
        let of_subjects = matches!(
            table.values("values")?[..],
            [Value::String(word)] if word.value() == SUBJECTS
        );
        let skips = table.flag("skip_impossible")?.is_some_and(|s| s.value);
        let skip_impossible = skips || of_subjects;
        table.finish()?;
        let skipped = Vec::new();
        axes.push(Axis { name: name.value, title, points, skip_impossible, skipped });
    }
    Ok(axes)
}

/// Names of axes and metrics are columns of tables, beside these.
const RESERVED: [&str; 4] = ["repetition", "seed", "bin_start_s", "time_s"];

/// Are these names one to those who read tables? Some do not tell upper from lower case.
fn same_column(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

fn check_column(source: Source<'_>, name: &At<String>, what: &str) -> Result<(), LabError> {
    match RESERVED.into_iter().find(|reserved| same_column(reserved, &name.value)) {
        None => Ok(()),
        Some(reserved) => {
            let message = format!(
                "no {what} can be called `{}`: every table of results has a column `{reserved}`",
                name.value
            );
            Err(source.error(name.line, message))
        }
    }
}

/// Without dots: those are in the names of what was measured.
fn check_axis_name(source: Source<'_>, name: &At<String>) -> Result<(), LabError> {
    let text = &name.value;
    let good = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ');
    let starts = text.starts_with(char::is_alphabetic) && !text.ends_with(' ');
    if starts && text.chars().all(good) {
        return Ok(());
    }
    let message = format!(
        "the axis `{}` names a column: letters, digits, `_`, `-` and spaces, a letter first",
        shown(text)
    );
    Err(source.error(name.line, message))
}

/// On one line.
fn shown(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// What `values` says for every protocol of the table, in its order.
pub(super) const ALL_PROTOCOLS: &str = "protocols";
/// What `values` says for every AQM, told to mark where it can.
pub(super) const ALL_QUEUES: &str = "queues";

/// Every AQM by its name, as a value of `aqm`.
fn queues() -> (Vec<String>, Vec<Value>) {
    let queue = |(words, spec): (Words, AqmConfig)| {
        let marks = spec.settings().iter().any(|setting| setting.doc.key == "ecn");
        let mut table = InlineTable::new();
        table.insert("kind", words.name.into());
        if marks {
            table.insert("ecn", true.into());
        }
        let value = if marks { Value::from(table) } else { words.name.into() };
        (words.name.to_owned(), value)
    };
    AqmConfig::forms().into_iter().map(queue).unzip()
}

/// `key = ".."` or several of them, `values = [..]` and, if they shall be called otherwise,
/// `labels = [..]`. `values = "protocols"` stands for the names of all protocols, `"queues"` for
/// every AQM, `"subjects"`, `"standards"` and `"against"` for those of a suite.
fn swept_values(
    source: Source<'_>,
    table: &Section<'_>,
    cast: Option<&Cast>,
) -> Result<Vec<Point>, LabError> {
    let keys = table.texts("key")?;
    let labels = table.texts("labels")?;
    let values = table.values("values")?;
    let (known, names): (Vec<String>, Vec<Value>) = match values[..] {
        [Value::String(word)] if word.value() == ALL_PROTOCOLS => {
            (Vec::new(), PROTOCOLS.iter().map(|p| Value::from(p.name)).collect())
        }
        [Value::String(word)] if word.value() == ALL_QUEUES => queues(),
        [Value::String(word)] if [SUBJECTS, STANDARDS, AGAINST].contains(&&**word.value()) => {
            let Some(those) = cast.and_then(|cast| cast.of(word.value())) else {
                let line = table.key_line("values");
                let message = format!(
                    "`{}` are those of a suite, which `windward evaluate` runs; give the names here",
                    word.value()
                );
                return Err(source.error(line, message));
            };
            let name = |s: &&Subject| (s.name.clone(), Value::from(s.protocol.as_str()));
            those.iter().map(name).unzip()
        }
        _ => (Vec::new(), Vec::new()),
    };
    let values = if names.is_empty() { values } else { names.iter().collect() };
    if keys.is_empty() != values.is_empty() {
        return Err(table.missing(if keys.is_empty() { "key" } else { "values" }));
    }
    if !labels.is_empty() && labels.len() != values.len() {
        let message = format!("{} labels for {} values", labels.len(), values.len());
        return Err(source.error(labels[0].line, message));
    }
    // Tables and checks would take it for the row.
    for (label, value) in labels.iter().zip(&values) {
        let is_protocol = keys.iter().any(|key| key.value.ends_with("protocol"));
        let row = PROTOCOLS.iter().find(|row| is_protocol && same_name(row.name, &label.value));
        if let Some(row) = row
            && setting(value) != row.name
        {
            return Err(source.error(label.line, is_taken(row.name)));
        }
    }
    let point = |(i, value): (usize, &&Value)| {
        let text = setting(value);
        let set = keys.iter().map(|k| (k.value.clone(), text.clone()));
        Point {
            label: match labels.get(i) {
                Some(label) => label.value.clone(),
                None => known.get(i).unwrap_or(&text).clone(),
            },
            set: set.collect(),
        }
    };
    Ok(values.iter().enumerate().map(point).collect())
}

fn settings(source: Source<'_>, set: &Section<'_>) -> Result<Vec<(String, String)>, LabError> {
    let mut settings = Vec::new();
    for (key, item) in set.free_keys() {
        match item.as_value() {
            Some(value) => settings.push((key.value, setting(value))),
            None => {
                let message = format!("put the dotted key `{}` in quotes", key.value);
                return Err(source.error(key.line, message));
            }
        }
    }
    Ok(settings)
}

/// A value as `--set` would be given it: a text without its quotes, all else as in TOML.
fn setting(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.clone().decorated("", "").to_string(),
    }
}

fn metrics(
    source: Source<'_>,
    section: &Section<'_>,
    axes: &[Axis],
) -> Result<Vec<Metric>, LabError> {
    let Some(table) = section.section("metrics")? else {
        return Err(section.missing("metrics"));
    };
    let mut metrics: Vec<Metric> = Vec::new();
    for (at, item) in table.free_keys() {
        check_column(source, &at, "metric")?;
        let At { line, value: name } = at;
        if axes.iter().any(|a| same_column(&a.name, &name)) {
            let message = format!("there is an axis `{name}` already, and both name columns");
            return Err(source.error(line, message));
        }
        if metrics.iter().any(|m| same_column(&m.name, &name)) {
            let message = format!("there are two metrics `{name}`, but for upper and lower case");
            return Err(source.error(line, message));
        }
        let word = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let starts = name.starts_with(|c: char| c.is_alphabetic());
        if !(word && starts) || ["abs", "min", "max"].contains(&name.as_str()) {
            let message = format!("`{name}` cannot name a metric: it must be a word");
            return Err(source.error(line, message));
        }
        let text = item.as_str().ok_or_else(|| {
            let message = format!("`{name}` must be an expression in quotes");
            source.error(line, message)
        })?;
        let expression =
            Expression::parse(text).map_err(|e| source.error(line, format!("`{name}`: {e}")))?;
        metrics.push(Metric { name, expression, line });
    }
    if metrics.is_empty() {
        return Err(table.error("`experiment.metrics` is empty: there is nothing to measure"));
    }
    Ok(metrics)
}

/// The words for what a chart draws.
pub(super) const PLOT_KINDS: [&str; 6] = ["lines", "dots", "time", "cwnd", "queue", "signal"];

fn plot(
    source: Source<'_>,
    table: Section<'_>,
    axes: &[Axis],
    metrics: &[Metric],
) -> Result<PlotConfig, LabError> {
    let kind = table.needed_text("kind")?;
    let axis = |name: &At<String>| {
        let found = axes.iter().position(|a| a.name == name.value);
        found.ok_or_else(|| {
            let hint = nearest(&name.value, axes.iter().map(|a| a.name.as_str()));
            source.error(name.line, format!("no axis `{}`{hint}", name.value))
        })
    };
    let x = || axis(&table.needed_text("x")?);
    let drawn = || {
        let names = table.texts("metrics")?;
        if names.is_empty() {
            return Err(table.missing("metrics"));
        }
        let index = |name: &At<String>| {
            let found = metrics.iter().position(|m| m.name == name.value);
            found.ok_or_else(|| {
                let hint = nearest(&name.value, metrics.iter().map(|m| m.name.as_str()));
                source.error(name.line, format!("no metric `{}`{hint}", name.value))
            })
        };
        names.iter().map(index).collect::<Result<Vec<_>, _>>()
    };
    let mut default_title = String::new();
    let mut default_unit = Unit::NONE;
    let spec_kind = match kind.value.as_str() {
        "lines" => {
            let log = table.flag("log")?.is_some_and(|l| l.value);
            let (x, metrics) = (x()?, drawn()?);
            let numbers = axes[x].points.iter().filter_map(Point::quantity);
            let usable = numbers.filter(|(x, _)| !log || *x > 0.0).count();
            if usable == 0 {
                let message = format!("no label of the axis `{}` is a number", axes[x].name);
                return Err(table.error(message));
            }
            PlotKind::Lines { x, log, metrics }
        }
        "dots" => PlotKind::Dots { x: x()?, metrics: drawn()? },
        "time" | "cwnd" | "queue" | "signal" => {
            let (what, title, unit) = match kind.value.as_str() {
                "cwnd" => (Traced::Cwnd, "Congestion window", "packets"),
                "queue" => (Traced::Queue, "Queue", "packets"),
                "signal" => (Traced::Signal, "Router signal", ""),
                _ if table.flag("flows")?.is_some_and(|f| f.value) => {
                    (Traced::FlowThroughput, "Throughput", "Mbit/s")
                }
                _ => (Traced::Throughput, "Throughput", "Mbit/s"),
            };
            default_title = title.to_owned();
            default_unit = Unit::named(unit).unwrap_or(Unit::NONE);
            let key = if what.is_of_links() { "links" } else { "groups" };
            let names: Vec<_> = table.texts(key)?;
            if names.is_empty() {
                return Err(table.missing(key));
            }
            PlotKind::Time {
                what,
                names: names.into_iter().map(|n| n.value).collect(),
                single: table.flag("single")?.is_some_and(|s| s.value),
            }
        }
        other => {
            let hint = nearest(other, PLOT_KINDS);
            return Err(source.error(kind.line, format!("unknown kind `{other}`{hint}")));
        }
    };
    if let PlotKind::Lines { metrics: drawn, .. } | PlotKind::Dots { metrics: drawn, .. } =
        &spec_kind
    {
        default_title = metrics[drawn[0]].name.clone();
    }
    let unit = match table.text("unit")? {
        None => default_unit,
        Some(name) => Unit::named(&name.value).ok_or_else(|| {
            let hint = nearest(&name.value, Unit::ALL.map(|u| u.name));
            source.error(name.line, format!("unknown unit `{}`{hint}", name.value))
        })?,
    };
    let over_time = matches!(spec_kind, PlotKind::Time { .. });
    let mut references = Vec::new();
    for section in table.sections("references")? {
        let reference = reference(source, &section)?;
        if over_time && matches!(reference.line, ReferenceLine::Curve { .. }) {
            return Err(section.error("a `curve` is for charts of metrics, not over time"));
        }
        let of_rate = unit == Unit::NONE || unit.name.ends_with("bit/s");
        if !of_rate && matches!(reference.line, ReferenceLine::Curve { .. }) {
            let message =
                format!("a `curve` is a rate and has no place on an axis of {}", unit.name);
            return Err(section.error(message));
        }
        references.push(reference);
        section.finish()?;
    }
    let y_log = match over_time {
        true => false,
        false => table.flag("y_log")?.is_some_and(|l| l.value),
    };
    let y = table.bounds("y")?;
    if let (true, Some((low, _))) = (y_log, y)
        && low <= 0.0
    {
        let line = table.key_line("y");
        return Err(source.error(line, "with `y_log` the bounds of `y` must be above zero"));
    }
    let spec = PlotConfig {
        kind: spec_kind,
        title: table.text("title")?.map(|t| t.value),
        y_title: table.text("y_title")?.map_or(default_title, |t| t.value),
        unit,
        y,
        only: only(source, &table, axes)?,
        y_log,
        references,
        line: table.line,
    };
    table.finish()?;
    Ok(spec)
}

/// `{ y = 3, label = ".." }` or `{ curve = "..", group = "..", link = ".." }`.
fn reference(source: Source<'_>, table: &Section<'_>) -> Result<Reference, LabError> {
    let label = table.text("label")?.map(|l| l.value);
    let Some(curve) = table.text("curve")? else {
        let y = table.number("y")?.ok_or_else(|| table.missing("y"))?;
        let label = label.ok_or_else(|| table.missing("label"))?;
        return Ok(Reference { line: ReferenceLine::Level(y.value), label });
    };
    let found = Law::ALL.into_iter().find(|(_, name, _)| *name == curve.value);
    let (law, _, usual) = found.ok_or_else(|| {
        let hint = nearest(&curve.value, Law::ALL.map(|(_, name, _)| name));
        source.error(curve.line, format!("unknown curve `{}`{hint}", curve.value))
    })?;
    let group = table.text("group")?.map(|g| g.value);
    let link = table.text("link")?.map(|l| l.value);
    let line = ReferenceLine::Curve { law, group, link };
    Ok(Reference { line, label: label.unwrap_or_else(|| usual.to_owned()) })
}

/// `only = { axis = ["label", ..] }`
fn only(
    source: Source<'_>,
    table: &Section<'_>,
    axes: &[Axis],
) -> Result<Vec<(usize, Vec<String>)>, LabError> {
    let mut only = Vec::new();
    let Some(table) = table.section("only")? else {
        return Ok(only);
    };
    for (key, item) in table.free_keys() {
        let Some(axis) = axes.iter().position(|a| a.name == key.value) else {
            let hint = nearest(&key.value, axes.iter().map(|a| a.name.as_str()));
            let message = format!("no axis `{}`{hint}", key.value);
            return Err(source.error(key.line, message));
        };
        let texts: Vec<&str> = match item {
            Item::Value(Value::Array(array)) => array.iter().filter_map(Value::as_str).collect(),
            item => item.as_str().into_iter().collect(),
        };
        let labels = || axes[axis].points.iter().map(|p| p.label.as_str());
        if let Some(unknown) = texts.iter().find(|t| !labels().any(|l| l == **t)) {
            let hint = nearest(unknown, labels());
            let message = format!("`{unknown}` is no label of the axis `{}`{hint}", key.value);
            return Err(source.error(key.line, message));
        }
        if texts.is_empty() {
            let message = format!("`only.{}` must list labels in quotes", key.value);
            return Err(source.error(key.line, message));
        }
        only.push((axis, texts.into_iter().map(str::to_owned).collect()));
    }
    Ok(only)
}

/// The claim of a table; where it is a criterion's, one of each subject.
fn claims_of(
    source: Source<'_>,
    table: Section<'_>,
    axes: &[Axis],
    cast: Option<&Cast>,
) -> Result<Vec<Claim>, LabError> {
    let Some(cast) = cast else { return Ok(vec![claim(source, table, axes, None)?]) };
    let of = |subject: &Subject| claim(source, table.clone(), axes, Some((cast, subject)));
    cast.subjects.iter().map(of).collect()
}

/// Who a claim is about, and who else there is.
type About<'a> = Option<(&'a Cast, &'a Subject)>;

fn claim(
    source: Source<'_>,
    table: Section<'_>,
    axes: &[Axis],
    about: About<'_>,
) -> Result<Claim, LabError> {
    let mut checks: Vec<Check> = Vec::new();
    for value in table.values("checks")? {
        let line = source.line(value.span());
        match value {
            Value::String(text) => {
                checks.extend(expand(source, line, text.value(), None, axes, about)?);
            }
            Value::InlineTable(_) => {
                let item = Item::Value(value.clone());
                let inner = Section::new(source, "experiment.claims.checks", &item)?;
                let any = inner.texts("any")?;
                let tie = margin(&inner)?;
                let mut of_table = if any.is_empty() {
                    let text = inner.needed_text("check")?.value;
                    let starred = inner.has("at");
                    let at = inner.texts("at")?;
                    let at: Vec<String> = at.into_iter().map(|t| t.value).collect();
                    expand(source, line, &text, starred.then_some(&at[..]), axes, about)?
                } else {
                    vec![alternatives(source, line, any, about)?]
                };
                for check in &mut of_table {
                    check.tie = tie;
                }
                checks.extend(of_table);
                inner.finish()?;
            }
            _ => {
                let message = "a check is a text in quotes, { check = \"..\", at = [..] } or \
                               { any = [..] }";
                return Err(source.error(line, message));
            }
        }
    }
    if checks.is_empty() {
        return Err(table.missing("checks"));
    }
    contradictions(source, &checks)?;
    let id = table.needed_text("id")?.value;
    let asked = match about {
        None => None,
        Some((_, subject)) => Some(Asked {
            of_all: id.clone(),
            subject: subject.name.clone(),
            criterion: table.needed_text("criterion")?.value,
        }),
    };
    let claim = Claim {
        id: match &asked {
            Some(asked) => format!("{id}@{}", asked.subject),
            None => id,
        },
        claim: table.needed_text("claim")?.value,
        expected: table.needed_text("expected")?.value,
        checks,
        explanation: table.text("explanation")?.map(|t| t.value),
        edition: table.count("edition", 1)?.map_or(1, |e| e.value),
        asked,
    };
    table.finish()?;
    Ok(claim)
}

/// Two bounds of the same thing between which there is nothing: no measurement could meet both.
fn contradictions(source: Source<'_>, checks: &[Check]) -> Result<(), LabError> {
    let single = |check: &'_ Check| match &check.any[..] {
        [(text, comparison)] => Some((text.clone(), comparison.clone(), check.line)),
        _ => None,
    };
    let bounds: Vec<_> = checks.iter().filter_map(single).collect();
    for (i, (text, comparison, line)) in bounds.iter().enumerate() {
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
                let message =
                    format!("`{text}` and `{other_text}` contradict each other: nothing is both");
                return Err(source.error(*line, message));
            }
        }
    }
    Ok(())
}

/// `tie = 0.02`, in the unit of the metric, or `tie = "5%"` of the larger side.
fn margin(table: &Section<'_>) -> Result<Option<Margin>, LabError> {
    let parse = |value: &Value| {
        let number = value.as_float().or_else(|| value.as_integer().map(|n| n as f64));
        let percent = || value.as_str()?.strip_suffix('%')?.trim().parse::<f64>().ok();
        let margin = number.map(Margin::Absolute);
        let margin = margin.or_else(|| percent().map(|percent| Margin::Share(percent / 100.0)))?;
        let (Margin::Absolute(x) | Margin::Share(x)) = margin;
        (x.is_finite() && x > 0.0).then_some(margin)
    };
    let found = table.typed("tie", "a number above zero, or a share such as \"5%\"", parse)?;
    Ok(found.map(|at| at.value))
}

/// A check that contains `*` as a label stands for one check per label in `at`, or per label
/// of the axis. `**` inside `min`, `max` or `mean` stands for all labels of its axis at once.
fn expand(
    source: Source<'_>,
    line: usize,
    text: &str,
    at: Option<&[String]>,
    axes: &[Axis],
    about: About<'_>,
) -> Result<Vec<Check>, LabError> {
    let error = |message: String| source.error(line, format!("`{text}`: {message}"));
    let (text, mut pattern) = comparison(text, about).map_err(&error)?;
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
            let any = vec![(text.to_owned(), pattern)];
            return Ok(vec![Check { any, tie: None, line }]);
        }
        (None, Some(_)) => return Err(error("`at` is for checks with a `*`".to_owned())),
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
        Check { any: vec![(with_label(text, "*", &label), comparison)], tie: None, line }
    });
    Ok(checks.collect())
}

/// `any = ["..", ".."]`: one of them must hold.
fn alternatives(
    source: Source<'_>,
    line: usize,
    texts: Vec<At<String>>,
    about: About<'_>,
) -> Result<Check, LabError> {
    let parse = |text: At<String>| match comparison(&text.value, about) {
        Ok(read) => Ok(read),
        Err(e) => Err(source.error(text.line, format!("`{}`: {e}", text.value))),
    };
    let any = texts.into_iter().map(parse).collect::<Result<_, _>>()?;
    Ok(Check { any, tie: None, line })
}

/// A check as read, with whom it is about in the place of `subject`, and with all standards in that of
/// `standards` inside `min`, `max` and `mean`.
fn comparison(text: &str, about: About<'_>) -> Result<(String, Comparison), String> {
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
        .standards
        .iter()
        .map(|standard| move |cell: &Cell| instead(cell, STANDARDS, &standard.name))
        .collect();
    let concerned = |cell: &Cell| cell.labels.iter().any(|label| label == STANDARDS);
    let read = read.spread(&concerned, &all);
    if read.cells().into_iter().any(concerned) {
        return Err(format!("`{STANDARDS}` stands inside `min(..)`, `max(..)` or `mean(..)`"));
    }
    Ok((with_label(text, SUBJECT, &subject.name), read))
}

/// The text with every such `word` that stands as a label replaced.
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

/// Every check names cells that exist, as far as they are in this experiment.
fn check_cells(source: Source<'_>, experiment: &Experiment) -> Result<(), LabError> {
    for check in experiment.claims.iter().flat_map(|c| &c.checks) {
        for cell in check.cells() {
            let own = cell.experiment.as_ref().is_none_or(|id| *id == experiment.id);
            if own {
                let found = experiment.find(cell);
                found.map_err(|message| source.error(check.line, message))?;
            }
        }
    }
    for reported in &experiment.reported {
        for cell in reported.value.leaves() {
            if cell.experiment.as_ref().is_none_or(|id| *id == experiment.id) {
                let found = experiment.find(cell);
                found.map_err(|message| source.error(reported.line, message))?;
            }
        }
    }
    Ok(())
}

/// FNV-1a with 64 bits.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    fnv1a_on(0xcbf2_9ce4_8422_2325, bytes)
}

/// The hash of what had this hash and further bytes.
pub(super) fn fnv1a_on(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
