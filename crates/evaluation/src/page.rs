//! First page of an evaluation: a row per criterion, a column per subject.

use std::fmt::Write;

use windward_core::part::alternatives;
use windward_report::Group;
use windward_report::lead::Found;
use windward_report::page::{counter, facts, prose};
use windward_report::plot::escape;

use crate::inquiry::{
    Answer, ClaimAnswer, ClaimAnswers, CriterionAnswers, Evaluation, Inquiry, KnownAnswer,
};
use crate::words::GAVE_UP;

/// The first page.
pub(crate) fn front(
    html: &mut String,
    inquiry: &Inquiry,
    evaluation: &Evaluation,
    found: &Found<'_>,
) {
    let Found { groups, about, standing, .. } = found;
    let suite = &inquiry.question.suite;
    let _ = writeln!(html, "<header>\n<h1>{}</h1>", escape(&suite.title));
    if standing.running || standing.to_come > 0 {
        let state = if standing.running { "Still running" } else { "Interrupted" };
        let to_come = match standing.to_come {
            0 => "all experiments are complete, and further runs decide open claims".to_owned(),
            1 => "1 experiment is still to come".to_owned(),
            n => format!("{n} experiments are still to come"),
        };
        let _ = writeln!(html, "<p class=\"why\"><b>{state}</b>: {to_come}.</p>");
    }
    let standards: Vec<&str> = suite.standards.iter().map(|s| &*s.name).collect();
    let _ = writeln!(
        html,
        "<p>Criteria of {}; what was judged: {}. Where the text gives no number, the bound is relative to {} in \
         the same scenario, for example their harm to others, queue and losses. A check is repeated \
         until its confidence interval excludes the bound. If it still contains the bound after the \
         permitted runs, the check is undecided. Values that differ by less than a margin count as \
         equal, which meets the criterion.</p>",
        escape(&suite.source),
        escape(&evaluation.subjects.join(", ")),
        escape(&standards.join(" and "))
    );
    match evaluation.subjects.len() {
        1 => totals(html, evaluation),
        _ => standings(html, evaluation),
    }
    if !evaluation.has_many_subjects() {
        html.push_str("<ul>\n");
        for sentence in evaluation.summary() {
            let _ = writeln!(html, "<li>{}</li>", prose(&sentence));
        }
        html.push_str("</ul>\n");
    }
    html.push_str("<h2>What was judged</h2>\n<ul>\n");
    for subject in &inquiry.question.subjects {
        let (name, definition) = (escape(&subject.name), prose(&subject.definition()));
        let _ = writeln!(html, "<li>{name}: {definition}</li>");
    }
    html.push_str("</ul>\n");
    facts(html, &Group::efforts(groups), about);
    html.push_str("</header>\n");
    table(html, inquiry, evaluation, groups);
    sensitivity(html, evaluation);
    gave_up(html, evaluation);
    known(html, &evaluation.known);
    discussed(html, &evaluation.criteria);
    let _ = writeln!(
        html,
        "<p class=\"again\">The same results as <a href=\"evaluation.md\">Markdown</a> and \
         <a href=\"evaluation.json\">JSON</a>; every claim with all its checks: \
         <a href=\"claims.json\">claims.json</a>.</p>"
    );
}

fn totals(html: &mut String, evaluation: &Evaluation) {
    let answers = || evaluation.criteria.iter().flat_map(|c| c.answers.iter().flatten());
    html.push_str("<ul class=\"counts totals\">\n");
    for answer in Answer::ALL {
        let count = answers().filter(|a| **a == answer).count();
        counter(html, count, answer.words(), class(answer));
    }
    html.push_str("</ul>\n");
}

/// Writes a row for each of several subjects: the number of criteria that it meets, and whether it
/// meets all those for general use.
fn standings(html: &mut String, evaluation: &Evaluation) {
    html.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"standings\">\n<thead><tr><th>Controller</th>",
    );
    for answer in Answer::ALL {
        let _ = write!(html, "<th>{answer}</th>");
    }
    html.push_str("<th>all for general use</th></tr></thead>\n<tbody>\n");
    for (column, subject) in evaluation.subjects.iter().enumerate() {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(subject));
        for answer in Answer::ALL {
            let _ = write!(html, "<td>{}</td>", evaluation.count(column, answer));
        }
        let _ =
            writeln!(html, "<td>{}</td></tr>", escape(&evaluation.general_use_in_short(column)));
    }
    html.push_str("</tbody>\n</table></div>\n");
}

fn table(html: &mut String, inquiry: &Inquiry, evaluation: &Evaluation, groups: &[Group<'_>]) {
    html.push_str("<section class=\"part\" id=\"criteria\">\n<h2>Criteria</h2>\n");
    html.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"evaluation\">\n<thead><tr><th>Criterion</th>",
    );
    for subject in &evaluation.subjects {
        let _ = write!(html, "<th>{}</th>", escape(subject));
    }
    html.push_str("</tr></thead>\n");
    for chapter in &inquiry.question.suite.chapters {
        let rows = evaluation.criteria.iter().filter(|c| c.criterion.chapter == chapter.key);
        let rows: Vec<&CriterionAnswers> = rows.filter(|c| !c.asked.is_empty()).collect();
        if rows.is_empty() {
            continue;
        }
        let page = groups.iter().find(|g| g.key == chapter.key).map(Group::page);
        let title = format!("{} {}", chapter.section, chapter.title);
        let title = match &page {
            Some(page) => format!("<a href=\"{}\">{}</a>", escape(page), escape(&title)),
            None => escape(&title),
        };
        let _ = writeln!(
            html,
            "<tbody>\n<tr class=\"chapter\"><th colspan=\"{}\">{title}</th></tr>",
            evaluation.subjects.len() + 1
        );
        for row in rows {
            criterion(html, row, page.as_deref());
        }
        html.push_str("</tbody>\n");
    }
    html.push_str("</table></div>\n</section>\n");
}

fn criterion(html: &mut String, row: &CriterionAnswers, page: Option<&str>) {
    let general = if row.criterion.general { "" } else { " <small>(special case)</small>" };
    let _ = write!(
        html,
        "<tr class=\"criterion\"><th scope=\"row\">{} {}{general}<br><small>{}</small></th>",
        escape(&row.criterion.section),
        escape(&row.criterion.title),
        escape(&row.criterion.asks)
    );
    for answer in &row.answers {
        let badge = answer.map_or_else(String::new, |answer| badge(answer, answer.words()));
        let _ = write!(html, "<td>{badge}</td>");
    }
    html.push_str("</tr>\n");
    for claim in &row.asked {
        asked(html, claim, page);
    }
}

fn asked(html: &mut String, claim: &ClaimAnswers, page: Option<&str>) {
    let title = match page {
        Some(page) => format!(
            "<a href=\"{}#{}\">{}</a>",
            escape(page),
            escape(&claim.experiment),
            escape(&claim.claim)
        ),
        None => escape(&claim.claim),
    };
    let _ =
        write!(html, "<tr><td>{title}<br><small>Met if: {}</small></td>", escape(&claim.expected));
    for answer in &claim.answers {
        let _ = write!(html, "<td>{}</td>", cell(answer));
    }
    html.push_str("</tr>\n");
}

fn cell(answer: &ClaimAnswer) -> String {
    let mut text = badge(answer.answer, answer.answer.words());
    let flips = answer.flips();
    if !flips.is_empty() {
        let title = format!("the opposite with {}", alternatives(&flips));
        let _ =
            write!(text, " <span class=\"badge open\" title=\"{}\">fragile</span>", escape(&title));
    }
    let Some(numbers) = answer.in_numbers() else {
        if !answer.measured.is_empty() {
            let _ = write!(text, "<br><small>{}</small>", escape(&answer.measured));
        }
        return text;
    };
    let title = format!("{}: {}, {} runs", answer.check, answer.measured, answer.runs);
    let _ = write!(
        text,
        "<br><small title=\"{}\">{}</small>",
        escape(&title),
        escape(&numbers).replace("&gt;=", "\u{2265}").replace("&lt;=", "\u{2264}")
    );
    text
}

/// Writes the verdicts that flip under variations, if there were any.
fn sensitivity(html: &mut String, evaluation: &Evaluation) {
    let Some(summary) = evaluation.sensitivity() else { return };
    let _ = writeln!(
        html,
        "<section class=\"part\" id=\"sensitivity\">\n<h2>Sensitivity</h2>\n<p>{}</p>",
        prose(&summary)
    );
    let fragile = evaluation.fragile();
    if !fragile.is_empty() {
        html.push_str("<ul>\n");
        for sentence in fragile {
            let _ = writeln!(html, "<li>{}</li>", prose(&sentence));
        }
        html.push_str("</ul>\n");
    }
    html.push_str("</section>\n");
}

fn gave_up(html: &mut String, evaluation: &Evaluation) {
    if evaluation.gave_up.is_empty() {
        return;
    }
    let _ = writeln!(
        html,
        "<section class=\"part\" id=\"gave-up\">\n<h2>Connections that gave up</h2>\n<p>{}</p>\n<ul>",
        prose(GAVE_UP)
    );
    for (reason, cells) in evaluation.gave_up_by_reason() {
        let _ = writeln!(html, "<li>{}\n<ul>", escape(&reason));
        for cell in cells {
            let _ = writeln!(html, "<li>{}</li>", escape(&cell));
        }
        html.push_str("</ul></li>\n");
    }
    html.push_str("</ul>\n</section>\n");
}

fn known(html: &mut String, known: &[KnownAnswer]) {
    if known.is_empty() {
        return;
    }
    html.push_str("<section class=\"part\" id=\"known\">\n<h2>Known results</h2>\n<ul>\n");
    for known in known {
        let _ = writeln!(html, "<li>{}</li>", prose(&known.sentence()));
    }
    html.push_str("</ul>\n</section>\n");
}

fn discussed(html: &mut String, criteria: &[CriterionAnswers]) {
    let with = criteria.iter().filter_map(|c| Some((&c.criterion, c.criterion.discuss.as_ref()?)));
    let with: Vec<_> = with.collect();
    if with.is_empty() {
        return;
    }
    html.push_str(
        "<section class=\"part\" id=\"discuss\">\n<h2>Questions for discussion</h2>\n<dl>\n",
    );
    for (criterion, discuss) in with {
        let _ = writeln!(
            html,
            "<dt>{} {}</dt><dd>{}</dd>",
            escape(&criterion.section),
            escape(&criterion.title),
            prose(discuss)
        );
    }
    html.push_str("</dl>\n</section>\n");
}

fn badge(answer: Answer, words: &str) -> String {
    format!("<span class=\"badge {}\">{words}</span>", class(answer))
}

fn class(answer: Answer) -> &'static str {
    match answer {
        Answer::Meets => "held",
        Answer::DoesNot => "not-held",
        Answer::Undecided | Answer::ToCome => "open",
        Answer::NotApplicable => "tie",
    }
}
