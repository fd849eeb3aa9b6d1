#!/usr/bin/env python3
"""Draws docs/pictures/cost-light.svg and cost-dark.svg from docs/pictures/cost.toml.

The pictures use presentation attributes with plain colours only: no style sheet, no variables, no script. So every viewer
shows them. Takes Python 3.11 (tomllib).
"""

import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
THEMES = {
    "light": {"page": "#ffffff", "ink": "#1d2126", "soft": "#5b646e", "line": "#d9dde1"},
    "dark": {"page": "#0d1117", "ink": "#e6e9ec", "soft": "#a0a9b3", "line": "#363d45"},
}
WIDTH, LEFT, RIGHT = 820, 200, 740  # of the picture; where 0% and the highest value lie
TOP, HEADING, BAR, GAP, BELOW = 44, 30, 15, 5, 34
FONT = 'font-family="system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif"'


def text(x, y, content, fill, size=13, anchor="start", weight="400"):
    """Returns a text element."""
    return (f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" font-size="{size}" font-weight="{weight}" '
            f'text-anchor="{anchor}">{escape(content)}</text>')


def picture(table, theme):
    """Returns the picture in one theme, as SVG."""
    colours = THEMES[theme]
    settings, workloads, unit = table["setting"], table["workload"], table["unit"]
    panel = HEADING + len(settings) * (BAR + GAP)
    bottom = TOP + len(workloads) * panel
    scale = (RIGHT - LEFT) / table["highest"]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + BELOW}" width="{WIDTH}" '
           f'height="{bottom + BELOW}" role="img" {FONT}>',
           f'<title>{escape(table["title"])}</title>',
           f'<rect width="{WIDTH}" height="{bottom + BELOW}" fill="{colours["page"]}"/>',
           text(16, 26, table["title"], colours["ink"], size=15, weight="600")]
    for tick in range(0, table["highest"] + 1, table["tick"]):
        x = LEFT + tick * scale
        stroke = colours["ink"] if tick == 0 else colours["line"]
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" stroke="{stroke}"/>')
        out.append(text(x, bottom + 20, f"{tick}{unit}", colours["soft"], size=12, anchor="middle"))
    for place, workload in enumerate(workloads):
        top = TOP + place * panel
        out.append(text(16, top + 20, workload["name"], colours["ink"], weight="600"))
        for row, setting in enumerate(settings):
            y = top + HEADING + row * (BAR + GAP)
            value = workload[setting["key"]]
            known = isinstance(value, (int, float))
            length = min(max(value, 0), table["highest"]) * scale if known else 0
            out.append(text(LEFT - 8, y + 12, setting["name"], colours["soft"], size=12.5, anchor="end"))
            if known:
                out.append(f'<rect x="{LEFT}" y="{y:.1f}" width="{length:.1f}" height="{BAR}" fill="{setting[theme]}"/>')
            said = f"{value:+.1f}{unit}" if known else "not measured yet"
            # Keeps the grid from crossing the figure.
            out.append(f'<rect x="{LEFT + length + 3:.1f}" y="{y:.1f}" width="{8 * len(said)}" height="{BAR}" '
                       f'fill="{colours["page"]}"/>')
            out.append(text(LEFT + length + 6, y + 12, said, colours["ink"], size=12.5))
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    table = tomllib.loads((FOLDER / "cost.toml").read_text())
    for theme in THEMES:
        (FOLDER / f"cost-{theme}.svg").write_text(picture(table, theme))


if __name__ == "__main__":
    main()
