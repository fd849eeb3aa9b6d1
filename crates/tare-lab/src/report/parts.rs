//! Parts of the page that several of its sections have.

use maud::{Markup, html};

use super::wording::{Claim, said};
use super::{Study, is_base, unit};
use crate::verdict::analysis::{CellAnalysis, SettingAnalysis};

/// Returns the anchor of a workload's section.
pub(super) fn anchor(workload: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("workload-{}", workload.chars().map(plain).collect::<String>())
}

/// Returns whether settings have different bases, so that each base has to be named.
pub(super) fn several_bases(study: &Study<'_>) -> bool {
    study.analysis.header.settings.iter().filter(|s| s.name == s.base).count() > 1
}

/// Renders the heads of a table's columns.
pub(super) fn heads(names: &[&str]) -> Markup {
    html! { thead { tr { @for name in names { th scope="col" { (name) } } } } }
}

/// Renders a setting's verdict as a cell of a table, with `below` under it.
/// `head` is the column's head.
pub(super) fn verdict_cell(
    study: &Study<'_>,
    head: &str,
    (cell, setting): (&CellAnalysis, &SettingAnalysis),
    below: Markup,
) -> Markup {
    if is_base(setting) {
        return html! { td.base data-head=(head) { "base" (below) } };
    }
    let (Some(said), Some(cost)) = (said(&study.analysis.header, cell, setting), setting.cost) else {
        return html! { td.none data-head=(head) { (unit::NONE) (below) } };
    };
    html! {
        td class={ "verdict " (said.claim.word()) } data-head=(head) {
            span.sign aria-hidden="true" { (said.claim.sign()) }
            span.figure { (unit::change(cost.share, cost.plus_minus())) } " "
            span.interval { (unit::interval(cost)) }
            @match said.claim {
                // The figure says that it is a cost.
                Claim::Costs | Claim::Saves => span.hidden { (said.words) },
                _ => span.said { (said.words) },
            }
            (below)
        }
    }
}

/// Renders the meaning of the symbols.
pub(super) fn legend(study: &Study<'_>) -> Markup {
    let margin = format!("within the margin of {}", unit::chosen(study.analysis.header.margin));
    html! {
        p.legend {
            @for (claim, meaning) in [
                (Claim::Costs, "costs"),
                (Claim::Saves, "saves"),
                (Claim::MayCost, "may cost (▽ may save): the interval begins near 0"),
                (Claim::Equal, margin.as_str()),
                (Claim::Unclear, "inconclusive"),
            ] {
                span class=(claim.word()) { span.sign { (claim.sign()) } " " (meaning) } " "
            }
        }
    }
}

/// Renders widths and heads of a table whose second column is a drawing; the heads are for screen readers.
pub(super) fn plot_heads(third: &str, fourth: &str) -> Markup {
    html! {
        colgroup { col.name; col; col.value; col.words; }
        thead.hidden { tr { @for head in ["setting", "plot", third, fourth] { th scope="col" { (head) } } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_plain() {
        assert_eq!(anchor("TPC-C, 10 warehouses"), "workload-tpc-c--10-warehouses");
    }
}
