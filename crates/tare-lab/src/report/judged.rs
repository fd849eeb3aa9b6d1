//! The judgements on a budget for CI systems: JUnit's XML and a summary in Markdown.
//!
//! JUnit's format is the one that CI systems share: a suite per cell, a case per setting. *Skipped* means
//! unknown, with the reason; only costs above the budget are a *failure*.

use maud::{PreEscaped, html};

use super::wording::{against, charged, in_short, said, warnings};
use super::{measured, unit};
use crate::results::record::Header;
use crate::verdict::analysis::{Analysis, CellAnalysis, SettingAnalysis};
use crate::verdict::budget::{Budget, BudgetOutcome, Judgement, outcome};

/// Describes a judgement: `+4.1% (+3.6% … +4.6%), all of it above 3%`.
pub fn words(budget: Budget, judgement: &Judgement) -> String {
    let Some(evidence) = judgement.evidence else { return "not measured".into() };
    let difference = evidence.difference;
    let figure = if evidence.of_mean { "mean of all turns " } else { "" };
    let change = unit::change(difference.share, difference.plus_minus());
    let Some((low, _)) = difference.interval else {
        return format!("{figure}{change}, too few blocks for an interval");
    };
    let place = match judgement.outcome {
        BudgetOutcome::Failed => format!("all of it above {budget}"),
        BudgetOutcome::Passed => format!("all of it below {budget}"),
        BudgetOutcome::Unknown if low > budget.share() => {
            format!("above {budget}, but the mean of all turns is not")
        }
        BudgetOutcome::Unknown => format!("on both sides of {budget}"),
    };
    format!("{figure}{change} ({}), {place}", unit::interval(difference))
}

/// Summarizes all judgements in a line: `Budget of 3%: failed (1 above it, 1 unknown, 2 below it).`
pub fn all_in_words(budget: Budget, judgements: &[Judgement]) -> String {
    let count = |outcome| judgements.iter().filter(|j| j.outcome == outcome).count();
    let parts = [
        (BudgetOutcome::Failed, "above it"),
        (BudgetOutcome::Unknown, "unknown"),
        (BudgetOutcome::Passed, "below it"),
    ];
    let counted: Vec<String> = parts
        .iter()
        .map(|&(o, words)| (count(o), words))
        .filter(|(n, _)| *n > 0)
        .map(|(n, w)| format!("{n} {w}"))
        .collect();
    let counted = if counted.is_empty() { "nothing to judge".into() } else { counted.join(", ") };
    format!("Budget of {budget}: {} ({counted}).", outcome(judgements))
}

/// Renders the judgements as JUnit's XML.
pub fn junit(analysis: &Analysis, budget: Budget, judgements: &[Judgement]) -> String {
    let header = &analysis.header;
    let count = |of: &[&Judgement], outcome| of.iter().filter(|j| j.outcome == outcome).count();
    let all: Vec<&Judgement> = judgements.iter().collect();
    let seconds = analysis.end.as_ref().map_or(0.0, |end| end.at);
    let xml = html! {
        testsuites name=(header.study) tests=(all.len()) failures=(count(&all, BudgetOutcome::Failed)) errors="0"
            skipped=(count(&all, BudgetOutcome::Unknown)) time=(format!("{seconds:.1}"))
        {
            @for cell in &analysis.cells {
                @let of_cell: Vec<&Judgement> = judgements.iter().filter(|j| j.cell == cell.cell).collect();
                testsuite name=(cell.cell) tests=(of_cell.len()) failures=(count(&of_cell, BudgetOutcome::Failed)) errors="0"
                    skipped=(count(&of_cell, BudgetOutcome::Unknown)) timestamp=(header.started)
                {
                    @for judgement in &of_cell { (case(header, cell, budget, judgement)) }
                }
            }
        }
    };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", xml.into_string())
}

fn case(header: &Header, cell: &CellAnalysis, budget: Budget, judgement: &Judgement) -> PreEscaped<String> {
    let words = words(budget, judgement);
    let verdict = measured(cell).find(|s| s.name == judgement.setting).and_then(|s| said(header, cell, s));
    let verdict = verdict.map_or("not measured".into(), |said| said.to_string());
    let facts = header.settings.iter().find(|s| s.name == judgement.setting);
    let against = facts.map(|facts| against(header, facts)).unwrap_or_default();
    let detail = format!("{} {verdict}; {} {against}", judgement.setting, charged(header.measure));
    html! {
        testcase classname=(format!("{}.{}", header.study, cell.cell)) name=(judgement.setting) {
            @match judgement.outcome {
                BudgetOutcome::Failed => failure type="budget" message=(words) { (detail) },
                BudgetOutcome::Unknown => skipped message=(words) {},
                BudgetOutcome::Passed => system-out { (words) "; " (detail) },
            }
        }
    }
}

/// Renders the study in Markdown: the outcome, a table of all settings, and remarks.
pub fn markdown(analysis: &Analysis, judged: Option<(Budget, &[Judgement])>) -> String {
    let header = &analysis.header;
    let mut text = format!("### {}: {}\n\n", text_of(&header.study), text_of(&header.question));
    if let Some((budget, judgements)) = judged {
        text += &format!("**{}**\n\n", all_in_words(budget, judgements));
    }
    let (head, rule) = if judged.is_some() { (" budget |", "---|") } else { ("", "") };
    text += &format!(
        "| workload | setting | cost | 95% | CPU share | memory | verdict |{head}\n|---|---|---:|---|---:|---:|---|{rule}\n"
    );
    for cell in &analysis.cells {
        for setting in measured(cell).filter(|s| s.name != s.base) {
            let told = setting.told();
            let verdict = said(header, cell, setting).map(|said| said.words).unwrap_or_default();
            let judgement = judged.and_then(|(budget, all)| {
                let own = all.iter().find(|j| j.cell == cell.cell && j.setting == setting.name)?;
                Some(format!("{} {}: {}", sign(own.outcome), own.outcome, words(budget, own)))
            });
            let fields = [
                cell.cell.to_string(),
                setting.name.clone(),
                told.map(|t| unit::change(t.share, t.plus_minus())).unwrap_or_default(),
                told.map(unit::interval).unwrap_or_default(),
                cpu_share(cell, setting),
                setting.memory.map(|m| unit::more_bytes(m.value)).unwrap_or_default(),
                verdict,
            ];
            let own = judged.map(|_| judgement.unwrap_or_else(|| "noise".into()));
            let fields: Vec<String> = fields.into_iter().chain(own).map(|field| text_of(&field)).collect();
            text += &format!("| {} |\n", fields.join(" | "));
        }
    }
    let ended = analysis.end.as_ref();
    let ended = ended.map_or("Not ended yet.".into(), |e| {
        format!("Ended after {:.1} minutes: {}.", e.at / 60.0, e.reason)
    });
    let paragraphs = [in_short(analysis), ended].into_iter().chain(warnings(analysis));
    paragraphs.for_each(|paragraph| text += &format!("\n{}\n", text_of(&paragraph)));
    text
}

/// Returns the share of the machine's processors that the base and the setting used; empty if unknown.
fn cpu_share(cell: &CellAnalysis, setting: &SettingAnalysis) -> String {
    let share = |s: &SettingAnalysis| Some(s.medians.cpu_share).filter(|share| share.is_finite());
    let base = cell.setting(&setting.base).and_then(share);
    let shares =
        base.zip(share(setting)).map(|shares| <[f64; 2]>::from(shares).map(|s| unit::percent(s, None)));
    shares.map(|shares| shares.join(" → ")).unwrap_or_default()
}

fn sign(outcome: BudgetOutcome) -> char {
    match outcome {
        BudgetOutcome::Passed => '✓',
        BudgetOutcome::Unknown => '?',
        BudgetOutcome::Failed => '✗',
    }
}

/// Escapes words so that they do not become markup.
fn text_of(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for c in words.chars() {
        match c {
            '\n' | '\r' => text.push(' '),
            '<' => text.push_str("&lt;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '~' => text.extend(['\\', c]),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::Cell;
    use crate::verdict::analysis::Difference;
    use crate::verdict::budget::BudgetEvidence;

    fn judgement(outcome: BudgetOutcome, interval: Option<(f64, f64)>, of_mean: bool) -> Judgement {
        let difference = Difference { share: 0.041, interval };
        let cell = Cell { workload: "w".into(), users: 2, percent: None };
        let evidence = Some(BudgetEvidence { difference, of_mean });
        Judgement { cell, setting: "on".into(), base: "off".into(), outcome, evidence }
    }

    #[test]
    fn a_judgement_says_its_interval_and_on_which_side_it_lies() {
        let budget: Budget = "3%".parse().expect("a budget");
        let failed = judgement(BudgetOutcome::Failed, Some((0.036, 0.046)), false);
        assert_eq!(words(budget, &failed), "+4.1% (+3.6% … +4.6%), all of it above 3%");
        let unknown = judgement(BudgetOutcome::Unknown, Some((0.01, 0.072)), true);
        assert_eq!(words(budget, &unknown), "mean of all turns +4.1% (+1.0% … +7.2%), on both sides of 3%");
        let bursty = judgement(BudgetOutcome::Unknown, Some((0.036, 0.046)), false);
        assert!(words(budget, &bursty).ends_with("above 3%, but the mean of all turns is not"));
        let few = judgement(BudgetOutcome::Unknown, None, false);
        assert_eq!(words(budget, &few), "+4.1%, too few blocks for an interval");
        assert_eq!(
            all_in_words(budget, &[failed, unknown, few]),
            "Budget of 3%: failed (1 above it, 2 unknown)."
        );
        assert_eq!(all_in_words(budget, &[]), "Budget of 3%: unknown (nothing to judge).");
    }

    #[test]
    fn names_are_no_markup() {
        assert_eq!(text_of("a|b <all> *x*\n[y]"), "a\\|b &lt;all> \\*x\\* \\[y\\]");
    }
}
