// Line charts over time, as SVG.

import { h } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [330, 130, 44, 16, 8];
const CLASSES = ["one", "second", "third"];

/**
 * Returns a chart with its axes and legend.
 * @param {string} title
 * @param {{ at: number }[]} points In ascending order of time.
 * @param {[string, (point: any) => number | null | undefined][]} series Each line's name, and its value at a point.
 * @param {(value: number) => string} shown Formats a value.
 */
export function chart(title, points, series, shown) {
  const values = points.flatMap((point) => series.map(([, value]) => value(point) ?? 0));
  const top = nice(Math.max(...values, 0));
  const [first, last] = [points[0]?.at ?? 0, points.at(-1)?.at ?? 1];
  const x = (at) => LEFT + ((at - first) / Math.max(1, last - first)) * (WIDTH - LEFT - 4);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
  const clock = (at) => new Date(at).toTimeString().slice(0, 5);
  const lines = series.map(([, value], index) => h(`path.line.${CLASSES[index]}`, { d: path(points, value, x, y) }));
  // Omit the middle mark if rounding gives it the same label as the bottom or top mark.
  const isOwn = (value) => value !== top / 2 || ![shown(0), shown(top)].includes(shown(value));
  const marks = [0, top / 2, top].filter(isOwn).map((value) => [
    h("line.axis", { x1: LEFT, x2: WIDTH - 4, y1: y(value), y2: y(value) }),
    h("text.label", { x: LEFT - 5, y: y(value) + 3, "text-anchor": "end" }, shown(value)),
  ]);
  const summary = series.map(([name, value]) => {
    const own = points.map(value).filter((one) => one !== null && one !== undefined);
    return `${name}: now ${shown(own.at(-1) ?? 0)}, at most ${shown(Math.max(0, ...own))}`;
  }).join("; ");
  return h("section.panel", null, h("h3", null, title),
    h("svg.chart", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}. ${summary}` },
      marks, lines,
      h("text.label", { x: LEFT, y: HEIGHT - 4 }, points.length ? clock(first) : ""),
      h("text.label", { x: WIDTH - 4, y: HEIGHT - 4, "text-anchor": "end" }, points.length ? clock(last) : "")),
    h("p.legend", null, series.map(([name], index) => h("span", null, h(`i.${CLASSES[index]}`), name))));
}

/** Returns the path data of a line, with a gap wherever a point has no value. */
function path(points, value, x, y) {
  let text = "", isDown = false;
  for (const point of points) {
    const own = value(point);
    if (own === null || own === undefined) { isDown = false; continue; }
    const place = `${x(point.at).toFixed(1)} ${y(own).toFixed(1)}`;
    // The zero-length line shows a single value as a dot.
    text += isDown ? `L${place}` : `M${place}L${place}`;
    isDown = true;
  }
  return text;
}

/** Returns the smallest of 1, 2, 5, 10, 20, … that is not below the value. */
function nice(value) {
  if (value <= 0) return 1;
  const step = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * step).find((top) => top >= value) ?? value;
}
