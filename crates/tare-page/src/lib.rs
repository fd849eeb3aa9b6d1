//! The look of tare's pages, and human-readable figures.
//!
//! A page is a self-contained file: no network, no font, no picture from elsewhere. It is light or dark like
//! the reader's system, rearranges tables where there is no room for columns, and can be printed.

pub mod unit;

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Custom properties of a style sheet: colours by name, light and dark, and the fonts.
pub const COLOURS: &str = include_str!("colours.css");
/// Style shared by all pages: type, tables.
const STYLE: &str = include_str!("style.css");

/// Returns a colour of the light theme, such as `#1d2126` for `ink`: for viewers that know no custom
/// properties.
///
/// # Panics
///
/// If `colours.css` has no colour of that name.
#[must_use]
pub fn light(name: &str) -> &'static str {
    let (_, from) = COLOURS.split_once(&format!("--{name}: ")).expect("a colour of the style sheet");
    from.split(';').next().unwrap_or(from)
}

/// Renders a page: its title, its additional style, its content, and its script, if any.
#[must_use]
pub fn page(title: &str, generator: &str, style: &str, body: Markup, script: Option<&str>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(generator);
                title { (title) }
                style { (PreEscaped(COLOURS)) (PreEscaped(STYLE)) (PreEscaped(style)) }
            }
            body {
                main { (body) }
                @if let Some(script) = script { script { (PreEscaped(script)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::light;

    #[test]
    fn a_colour_is_the_light_one() {
        assert_eq!((light("ink"), light("line")), ("#1d2126", "#d9dde1"));
    }
}
