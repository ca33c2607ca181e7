#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Draws architecture.svg, send.svg, loss.svg, top.svg and growth.svg into FOLDER (default: docs/)
from the texts beside this file, whose heads say how they are written. A text that does not fit its
box is an error."""
import math
import re
import sys
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
FONT = "DejaVu Sans, Verdana, sans-serif"

# Widths of the characters from space to ~, in 1/100 of the size: DejaVu Sans, as wide as any.
PLAIN = ("32404684649578273939508432363234646464646464646464643434848484539968697077635877752929"
         "66568675796079696361736899696169393439845050616355636235636328285828976361636341523963"
         "598259595264346484")
BOLD = ("35465284709987314646528438423837707070707070707070704040848484589977767383686882843737"
        "77649984857385777268817799777273463746845050677259726844727134346734997169727249604871"
        "659265655871377184")
WIDEST = 100

# name: fill on light ground, fill on dark ground
COLOURS = {
    "program": ("#ffffff", "#262d37"), "tool": ("#ffffff", "#262d37"),
    "shell": ("#dce8f7", "#1d3350"), "driver": ("#cfdff5", "#20406a"),
    "engine": ("#d9efdc", "#1d4029"), "transport": ("#c7e7cc", "#215233"),
    "hca": ("#eaf5e3", "#2d4626"), "link": ("#fde3d3", "#5a321c"),
    "pure": ("#efebf7", "#362f4c"), "seam": ("#fff6d6", "#4a3f14"),
}
# name: stroke of a curve on light ground, on dark ground
CURVES = {"one": ("#1f5fbf", "#6ea8ff"), "two": ("#b5521b", "#ff9d5c"),
          "three": ("#1f7a3d", "#63cf86")}


def read(name):
    """The lines of a text, without comments, as [words before |, texts behind it]"""
    for line in (HERE / name).read_text().splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            first, *texts = (part.strip() for part in line.split("|"))
            yield first.split(), texts


def width_of(text, size, bold):
    table = BOLD if bold else PLAIN
    hundredths = 0
    for c in text:
        at = 2 * (ord(c) - 32)
        hundredths += int(table[at:at + 2]) if at < len(table) else WIDEST
    return hundredths * size / 100


class Picture:
    def __init__(self, width, height, caption):
        self.width, self.height = width, height
        self.parts = []
        self.caption = caption

    def add(self, element):
        self.parts.append(element)

    def box(self, x, y, w, h, colour, more=""):
        self.add(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="7" '
                 f'class="box {colour}"{more}/>')

    def text(self, x, y, text, room, size=13, bold=False, anchor="start", soft=False, more=""):
        if width_of(text, size, bold) > room:
            sys.exit(f"draw.py: '{text}' is {width_of(text, size, bold):.0f} wide and has "
                     f"{room:.0f}; say less")
        kind = ("b " if bold else "") + ("s" if soft else "t")
        self.add(f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" '
                 f'class="{kind}"{more}>{escape(text)}</text>')

    def line(self, points, arrow=False):
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        end = ' marker-end="url(#arrow)"' if arrow else ""
        self.add(f'<polyline points="{path}" class="line"{end}/>')

    def svg(self):
        light = "".join(f".{n}{{fill:{c[0]}}}" for n, c in COLOURS.items())
        dark = "".join(f".{n}{{fill:{c[1]}}}" for n, c in COLOURS.items())
        if any("curve" in part for part in self.parts):
            light += ".curve{fill:none;stroke-width:2}"
            light += "".join(f".{n}{{stroke:{c[0]}}}" for n, c in CURVES.items())
            dark += "".join(f".{n}{{stroke:{c[1]}}}" for n, c in CURVES.items())
        head = f'''<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}"
 width="{self.width}" height="{self.height}" font-family="{FONT}" role="img">
<title>{escape(self.caption)}</title>
<style>
.card{{fill:#fbfbfc;stroke:#d3d8df}}.box{{stroke:#7b8794}}.t{{fill:#18202b}}.s{{fill:#47525f}}
.b{{font-weight:bold}}.line{{fill:none;stroke:#5b6673;stroke-width:1.5}}.tip{{fill:#5b6673}}
.panel{{fill:none;stroke:#b9c1cb;stroke-dasharray:2 4}}.dash{{stroke-dasharray:6 4}}{light}
@media (prefers-color-scheme:dark){{
.card{{fill:#12171e;stroke:#2f3946}}.box{{stroke:#66727f}}.t{{fill:#eef2f6}}.s{{fill:#b3bdc9}}
.line{{stroke:#9aa6b3}}.tip{{fill:#9aa6b3}}.panel{{stroke:#4b5664}}{dark}
}}
</style>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
 orient="auto"><path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>
<rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="10" class="card"/>
'''
        return head + "\n".join(self.parts) + "\n</svg>\n"


# --- architecture.svg ---

MARGIN, RANK_W, COLUMN, GAP = 24, 34, 64, 10
PAD = 14


def span(column, columns):
    """x and width of a box over some columns"""
    return MARGIN + RANK_W + column * COLUMN, columns * COLUMN - GAP


def folder(p, y, h, words, texts):
    _, column, columns, colour, name = words
    x, w = span(int(column), int(columns))
    p.box(x, y, w, h, colour)
    room = w - 2 * PAD
    p.text(x + PAD, y + 23, name, room, 15, bold=True)
    for i, text in enumerate(texts):
        p.text(x + PAD, y + 43 + 18 * i, text, room, 12.5, soft=True)


def outside(p, y, h, words, texts):
    x, w = span(int(words[1]), int(words[2]))
    p.add(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="7" class="panel"/>')
    p.text(x + PAD, y + 23, " ".join(words[3:]), w - 2 * PAD, 15, bold=True)
    p.text(x + PAD, y + 43, texts[0], w - 2 * PAD, 12.5, soft=True)


def upright(p, y, h, words, _texts):
    x, w = span(int(words[1]), 1)
    p.box(x + 8, y - GAP / 2, w - 16, h + GAP, "seam dash")
    middle = x + w / 2
    p.text(middle + 5, y + h / 2, words[2], h + GAP, 14, bold=True, anchor="middle",
           more=f' transform="rotate(-90 {middle + 5:g} {y + h / 2:g})"')


def seam(p, y, h, words, texts):
    x, w = span(1, 10)
    p.box(x, y, w, h, "seam dash")
    name = " ".join(words[1:])
    p.text(x + PAD, y + 21, name, w / 2, 14, bold=True)
    beside = width_of(name, 14, True) + 2 * PAD
    p.text(x + beside, y + 21, texts[0], w - beside - PAD, 12.5, soft=True)


def architecture():
    caption, rows = "", []
    for words, texts in read("architecture.txt"):
        if words[0] == "caption":
            caption = " ".join(words[1:])
        elif words[0] in ("rank", "seam"):
            rows.append([(words, texts)])
        else:
            rows[-1].append((words, texts))
    heights = [34 if r[0][0][0] == "seam" else
               54 if max(len(t) for _, t in r[1:]) < 2 else 74 for r in rows]
    p = Picture(2 * MARGIN + RANK_W + 12 * COLUMN - GAP,
                2 * MARGIN + sum(heights) + GAP * len(rows) + 18, caption)
    draw = {"folder": folder, "outside": outside, "upright": upright}
    y = MARGIN
    for row, h in zip(rows, heights):
        words, texts = row[0]
        if words[0] == "seam":
            seam(p, y, h, words, texts)
        else:
            p.text(MARGIN + 6, y + h / 2 + 5, words[1], RANK_W, 14, soft=True)
        for words, texts in row[1:]:
            draw[words[0]](p, y, h, words, texts)
        y += h + GAP
    p.text(MARGIN + 6, y + 14, caption, p.width - 2 * MARGIN, 12.5, soft=True)
    return p.svg()


# --- send.svg, loss.svg ---

LANES = {"program": 0, "driver": 1, "engine": 2, "transport": 3, "hca": 3, "link": 4}
STEP_W, STEP_H, ROW_H, INDENT = 290, 40, 47, 26
TOP, SIDE_W, RING_W = 88, 290 + 4 * 26 + 40, 170


def place(side, row, lane, width):
    x = 44 + lane * INDENT if side == "left" else width - 24 - STEP_W - lane * INDENT
    return x, TOP + row * ROW_H


def join(p, one, two):
    """From the step at @one to the next at @two, (x, y) each"""
    if two[0] == one[0]:
        p.line([(one[0] + 20, one[1] + STEP_H), (two[0] + 20, two[1])], True)
        return
    left = two[0] > one[0]
    x = one[0] + 13 if left else one[0] + STEP_W - 13
    middle = two[1] + STEP_H / 2
    p.line([(x, one[1] + STEP_H), (x, middle), (two[0] if left else two[0] + STEP_W, middle)], True)


def sequence(name):
    caption, names, notes = "", {"middle": "rings"}, []
    steps = {"left": [], "right": [], "ring": [], "lost": []}
    for words, texts in read(name):
        if words[0] == "caption":
            caption = " ".join(words[1:])
        elif words[0] == "note":
            notes.append((words[1], int(words[2]), texts))
        elif re.fullmatch(r"\d+", words[1]):
            steps[words[0]].append((int(words[1]), words[2], " ".join(words[3:]), texts[0]))
        else:
            names[words[0]] = " ".join(words[1:])
    width = 2 * SIDE_W + RING_W
    rows = 1 + max(s[0] for side in steps.values() for s in side)
    p = Picture(width, TOP + rows * ROW_H + 20, caption)
    p.text(24, 36, caption, width - 48, 17, bold=True)
    p.text(44, 70, names["left"], STEP_W, 14, bold=True)
    p.text(width - 24, 70, names["right"], STEP_W, 14, bold=True, anchor="end")
    p.text(width / 2, 70, names["middle"], RING_W, 14, bold=True, anchor="middle")
    p.add(f'<rect x="{SIDE_W + 8:g}" y="{TOP - 6}" width="{RING_W - 16}" '
          f'height="{rows * ROW_H + 6}" rx="9" class="panel"/>')
    p.line([(24, TOP), (24, TOP + rows * ROW_H - 4)], True)
    middle = TOP + rows * ROW_H / 2
    p.text(18, middle, "time", 60, 12, soft=True, anchor="middle",
           more=f' transform="rotate(-90 18 {middle:g})"')
    for side in ("left", "right"):
        draw_side(p, side, steps, width)
    for row, to, what, how in steps["ring"]:
        draw_record(p, row, to, what, how, steps, width)
    for row, to, what, how in steps["lost"]:
        draw_record(p, row, to, what, how, steps, width, lost=True)
    for side, row, texts in notes:
        x = 64 if side == "left" else width - SIDE_W + 40
        for i, text in enumerate(texts):
            p.text(x, TOP + row * ROW_H + 17 + 18 * i, text, STEP_W + 60, 12.5, soft=True)
    return p.svg()


def draw_side(p, side, steps, width):
    before = None
    carried = {r[0] for r in steps["ring"] + steps["lost"]}
    for row, colour, what, where in steps[side]:
        x, y = place(side, row, LANES[colour], width)
        if before and before[0] + 1 == row and before[0] not in carried:
            join(p, before[1:], (x, y))
        before = (row, x, y)
        p.box(x, y, STEP_W, STEP_H, colour)
        p.text(x + 12, y + 17, what, STEP_W - 20, 12.5, bold=True)
        p.text(x + 12, y + 33, where, STEP_W - 20, 11.5, soft=True)


def draw_record(p, row, to, what, how, steps, width, lost=False):
    """A record, with arrows from the step above it and to the step below it, if it gets there"""
    x, y, w = SIDE_W + 18, TOP + row * ROW_H, RING_W - 36
    p.box(x, y, w, STEP_H, "seam")
    p.text(x + w / 2, y + 17, what, w - 10, 12.5, bold=True, anchor="middle")
    p.text(x + w / 2, y + 33, how, w - 10, 11.5, soft=True, anchor="middle")
    other = "left" if to == "right" else "right"
    source = next(s for s in steps[other] if s[0] == row - 1)
    sx, sy = place(other, source[0], LANES[source[1]], width)
    start = sx + STEP_W if other == "left" else sx
    near, far = (x + 22, x + w - 22) if to == "right" else (x + w - 22, x + 22)
    p.line([(start, sy + STEP_H / 2), (near, sy + STEP_H / 2), (near, y)], True)
    if lost:
        return
    target = next(s for s in steps[to] if s[0] == row + 1)
    tx, ty = place(to, target[0], LANES[target[1]], width)
    end = tx if to == "right" else tx + STEP_W
    p.line([(far, y + STEP_H), (far, ty + STEP_H / 2), (end, ty + STEP_H / 2)], True)


# --- top.svg ---

CELL, LINE, SIZE = 7.83, 19, 13  # of a monospaced font: width of a character, height of a line
MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"


def terminal(name):
    """What commands print, below their prompts; a table's head is bold"""
    caption, *lines = [line for line in (HERE / name).read_text().splitlines()
                       if not line.startswith("#")]
    width = 2 * MARGIN + CELL * max(map(len, lines))
    p = Picture(round(width), 2 * MARGIN + LINE * len(lines), caption.removeprefix("caption "))
    for i, line in enumerate(lines):
        if line.startswith("$ "):
            kind = "b t"
        else:
            kind = "b s" if re.match(r" +(PID|QP) ", line) else "t"
        p.add(f'<text x="{MARGIN}" y="{MARGIN + 14 + LINE * i}" font-size="{SIZE}" '
              f'font-family="{MONO}" xml:space="preserve" textLength="{CELL * len(line):.4g}" '
              f'class="{kind}">{escape(line)}</text>')
    return p.svg()


# --- growth.svg ---

PLOT_W, PLOT_H, PLOT_LEFT, PLOT_BELOW, PLOT_ABOVE = 360, 200, 58, 64, 56


class Scale:
    """Logarithmic, in whole decades, from @low to @high on the picture"""

    def __init__(self, values, low, high):
        self.first = math.floor(math.log10(min(values)) + 1e-9)
        self.last = max(math.ceil(math.log10(max(values)) - 1e-9), self.first + 1)
        self.low, self.high = low, high

    def at(self, value):
        part = (math.log10(value) - self.first) / (self.last - self.first)
        return self.low + part * (self.high - self.low)

    def marks(self):
        return [10.0 ** n for n in range(self.first, self.last + 1)]


def axes(p, across, up):
    for value in across.marks():
        x = across.at(value)
        p.line([(x, up.low), (x, up.low + 5)])
        p.text(x, up.low + 20, f"{value:,.15g}", 60, 11.5, anchor="middle", soft=True)
    for value in up.marks():
        y = up.at(value)
        p.add(f'<line x1="{across.low:g}" y1="{y:.4g}" x2="{across.high:g}" y2="{y:.4g}" '
              'class="panel"/>')
        p.text(across.low - 7, y + 4, f"{value:,.15g}", PLOT_LEFT - 10, 11.5, anchor="end",
               soft=True)
    p.line([(across.low, up.high), (across.low, up.low), (across.high, up.low)])


def plot(p, corner, names, curves):
    left, top = corner[0] + PLOT_LEFT, corner[1] + PLOT_ABOVE
    points = [point for _, _, curve in curves for point in curve]
    across = Scale([x for x, _ in points], left, left + PLOT_W)
    up = Scale([y for _, y in points], top + PLOT_H, top)
    axes(p, across, up)
    p.text(left, top - 34, names[1], PLOT_W, 13, bold=True)
    p.text(left + PLOT_W / 2, top + PLOT_H + 40, names[0], PLOT_W, 12.5, anchor="middle", soft=True)
    x = left
    for colour, name, curve in curves:
        path = " ".join(f"{across.at(a):.5g},{up.at(b):.5g}" for a, b in curve)
        p.add(f'<polyline points="{path}" class="curve {colour}"/>')
        p.add(f'<line x1="{x:g}" y1="{top - 17}" x2="{x + 18:g}" y2="{top - 17}" '
              f'class="curve {colour}"/>')
        p.text(x + 24, top - 13, name, PLOT_W, 11.5)
        x += 24 + width_of(name, 11.5, False) + 16


def growth():
    caption, panels = "", []
    for words, texts in read("growth.txt"):
        if words[0] == "caption":
            caption = " ".join(words[1:])
        elif words[0] == "panel":
            panels.append(((" ".join(words[1:]), texts[0]), []))
        else:
            points = [tuple(map(float, point.split(":"))) for point in texts[0].split()]
            panels[-1][1].append((words[1], " ".join(words[2:]), points))
    wide, high = PLOT_LEFT + PLOT_W + 30, PLOT_ABOVE + PLOT_H + PLOT_BELOW
    p = Picture(2 * wide + MARGIN, 2 * high + 60, caption)
    p.text(MARGIN, 34, caption, 2 * wide - MARGIN, 15, bold=True)
    for i, (names, curves) in enumerate(panels):
        plot(p, (MARGIN / 2 + i % 2 * wide, 44 + i // 2 * high), names, curves)
    return p.svg()


def main():
    folder_out = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent
    (folder_out / "architecture.svg").write_text(architecture())
    for name in ("send", "loss"):
        (folder_out / f"{name}.svg").write_text(sequence(f"{name}.txt"))
    (folder_out / "top.svg").write_text(terminal("top.txt"))
    (folder_out / "growth.svg").write_text(growth())


if __name__ == "__main__":
    main()
