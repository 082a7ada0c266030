#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the picture of the parts of Tonnage, ``docs/images/parts.svg``; its extensions are those of setup.cfg.

Run it after a change here or of the extensions: ``python3 tools/parts_picture.py``.
"""

import configparser
import pathlib
import sys
from dataclasses import dataclass
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "parts.svg"

_WIDTH, _HEIGHT = 1000, 440
_STYLE = """
    rect { fill: #ffffff; stroke: #2d6cb5; stroke-width: 1.5 }
    rect.outside { stroke: #7d8893; stroke-dasharray: 5 4 }
    rect.ledger { fill: #e8f0fa }
    rect.extension { stroke: #7d8893; fill: #f4f5f7 }
    rect.page { fill: #fcfdff; stroke: none }
    text { font-family: sans-serif; font-size: 13px; fill: #1b2733; text-anchor: middle }
    text.title { font-size: 15px; font-weight: bold }
    text.label { font-size: 12px; fill: #46525e }
    path { stroke: #1b2733; stroke-width: 1.5; fill: none; marker-end: url(#arrow) }
"""


@dataclass(frozen=True)
class Box:
    """A rectangle with a title and lines of text; ``x`` and ``y`` are its upper left corner."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()
    style: str = ""

    def svg(self) -> str:
        """Return the box as SVG."""
        middle = self.x + self.width // 2
        rectangle = (
            f'<rect class="{self.style}" x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="6"/>'
        )
        texts = [_text(middle, self.y + 25, self.title, "" if self.style == "extension" else "title")]
        texts += [_text(middle, self.y + 47 + 19 * number, line) for number, line in enumerate(self.lines)]
        return "\n  ".join([rectangle, *texts])


def _text(x: int, y: int, text: str, style: str = "") -> str:
    return f'<text class="{style}" x="{x}" y="{y}">{escape(text)}</text>'


def _arrow(x1: int, y1: int, x2: int, y2: int, label: str = "", shift: int = -8) -> str:
    """Return an arrow; ``shift`` is the distance of its label from its middle, downwards."""
    line = f'<path d="M {x1} {y1} L {x2} {y2}"/>'
    return line + (_text((x1 + x2) // 2, (y1 + y2) // 2 + shift, label, "label") if label else "")


def extensions() -> list[str]:
    """Return the names of the extensions in setup.cfg."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = parser["options.entry_points"]["tonnage.extensions"].split("\n")
    return sorted(line.partition("=")[0].strip() for line in lines if line)


def svg() -> str:
    """Return the picture."""
    boxes = [
        Box(20, 60, 130, 110, "clients", ("openstack, cinder,", "curl, the web page"), "outside"),
        Box(220, 60, 150, 110, "tonnage-api", ("REST, policy,", "authentication")),
        Box(440, 60, 190, 110, "tonnage-scheduler", ("filters, weighers:", "one pool a volume;", "quotas, claims")),
        Box(700, 60, 150, 110, "tonnage-agent", ("drivers: filesystem,", "LVM, CSI, memory")),
        Box(900, 60, 85, 110, "storage", ("pools", "volumes"), "outside"),
        Box(
            220, 245, 410, 75, "ledger (SQL)", ("volumes, claims, pools, limits: every promise of capacity",), "ledger"
        ),
    ]
    names = extensions()
    width = (_WIDTH - 40 - 10 * (len(names) - 1)) // len(names)
    boxes += [
        Box(20 + number * (width + 10), 380, width, 40, name, style="extension") for number, name in enumerate(names)
    ]
    arrows = [
        _arrow(150, 115, 216, 115, "HTTP"),
        _arrow(370, 115, 436, 115, "requests"),
        _arrow(630, 95, 696, 95, "orders"),
        _arrow(700, 140, 634, 140, "reports", 17),
        _arrow(850, 115, 896, 115),
        _arrow(295, 170, 295, 241, "", 0),
        _arrow(535, 170, 535, 241, "", 0),
    ]
    labels = [
        _text(335, 212, "reads", "label"),
        _text(585, 212, "claims", "label"),
        _text(535, 35, "core: the processes exchange messages through a bus; tonnage-standalone has them all", "label"),
        _text(_WIDTH // 2, 365, "extensions: optional parts, one folder each; the core imports none", "label"),
    ]
    body = "\n  ".join([*(box.svg() for box in boxes), *arrows, *labels])
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">
  <title>The parts of Tonnage</title>
  <style>{_STYLE}  </style>
  <defs>
    <marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">
      <polygon points="0,0 10,5 0,10" fill="#1b2733"/>
    </marker>
  </defs>
  <rect class="page" x="0" y="0" width="{_WIDTH}" height="{_HEIGHT}"/>
  {body}
</svg>
"""


def main() -> int:
    """Write the picture and return the exit code."""
    PICTURE.write_text(svg(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
