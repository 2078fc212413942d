//! Results of all scripts, as a document.

use super::{Compliance, Script, ScriptReport, label};

/// A document with a row per script, and all departures from the RFCs below the table:
/// `docs/conformance.md`. `reports` has the reports of each script, in order; `foreign` the stacks
/// with their own columns.
pub fn conformance(reports: &[(&Script, Vec<ScriptReport>)], foreign: &[&str]) -> String {
    let mut text = String::from(
        "# Conformance\n\n\
         <!-- Written by `windward script --markdown`. -->\n\n\
         Senders on [scripts of one path](scripts.md), compared with the RFCs. `2/3` means that two of three\n\
         expectations are met. The others are below the table, each with the reason. A dash means that the\n\
         script does not apply.\n\n",
    );
    text += "| script | requirement | rows and compositions |";
    foreign.iter().for_each(|name| text += &format!(" {name} |"));
    text += "\n| --- | --- | --- |";
    foreign.iter().for_each(|_| text += " --- |");
    text += "\n";
    for (script, reports) in reports {
        let is_foreign = |report: &ScriptReport| foreign.contains(&report.protocol.as_str());
        let own: Vec<String> = reports
            .iter()
            .filter(|report| !is_foreign(report))
            .map(|report| format!("{} {}", label(&report.protocol), count(report)))
            .collect();
        text += &format!(
            "| [{}](../experiments/scripts/{}.toml) | {} ({}) | {} |",
            script.name,
            script.name,
            script.title,
            script.source,
            own.join(", ")
        );
        for name in foreign {
            let report = reports.iter().find(|report| report.protocol == *name);
            text += &format!(" {} |", report.map_or_else(|| "-".to_owned(), count));
        }
        text += "\n";
    }
    text += "\n## Departures\n\n";
    let mut any = false;
    for report in reports.iter().flat_map(|(_, reports)| reports) {
        for finding in &report.findings {
            if matches!(finding.verdict, Compliance::Met | Compliance::NotTold) {
                continue;
            }
            any = true;
            let reason = finding.reason.as_deref().unwrap_or("not known");
            text += &format!(
                "- `{}`, {}: {} at {} should be {} and is {} ({}: \"{}\"). Why: {reason}.\n",
                label(&report.protocol),
                report.script,
                finding.quantity,
                finding.at,
                finding.expected,
                finding.seen,
                finding.source,
                finding.says,
            );
        }
    }
    if !any {
        text += "There are none.\n";
    }
    text
}

fn count(report: &ScriptReport) -> String {
    let told = report.findings.len() - report.count(Compliance::NotTold);
    format!("{}/{told}", report.count(Compliance::Met))
}
