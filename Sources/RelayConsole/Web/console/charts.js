// Line charts over time, as SVG.

import { fill, h } from "./dom.js";

const [WIDTH, HEIGHT, BOTTOM, TOP] = [330, 130, 16, 8];
const CLASSES = ["one", "second", "third"];

/** The time at which each chart shows its values, by title. A redraw keeps it. */
const pointed = new Map();

/**
 * Returns a chart with its axes and legend. The legend shows the values at the pointer.
 * @param {string} title
 * @param {{ at: number }[]} points In ascending order of time.
 * @param {[string, (point: any) => number | null | undefined][]} series Each line's name, and its value at a point.
 * @param {(value: number) => string} shown Formats a value.
 */
export function chart(title, points, series, shown) {
  const values = points.flatMap((point) => series.map(([, value]) => value(point) ?? 0));
  const top = nice(Math.max(...values, 0));
  const [first, last] = [points[0]?.at ?? 0, points.at(-1)?.at ?? 1];
  // A digit of a label is about 6 units wide.
  const left = 9 + 6 * Math.max(...[0, top / 2, top].map((value) => shown(value).length));
  const x = (at) => left + ((at - first) / Math.max(1, last - first)) * (WIDTH - left - 4);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
  const clock = (at) => new Date(at).toTimeString().slice(0, 5);
  const lines = series.map(([, value], index) => [
    h(`path.line.${CLASSES[index]}`, { d: path(points, value, x, y) }),
    lonely(points, value).map((point) => h(`circle.dot.${CLASSES[index]}`, { cx: x(point.at), cy: y(value(point)), r: 2.5 })),
  ]);
  // Omit the middle mark if rounding gives it the same label as the bottom or top mark.
  const isOwn = (value) => value !== top / 2 || ![shown(0), shown(top)].includes(shown(value));
  const marks = [0, top / 2, top].filter(isOwn).map((value) => [
    h("line.axis", { x1: left, x2: WIDTH - 4, y1: y(value), y2: y(value) }),
    h("text.label", { x: left - 5, y: y(value) + 3, "text-anchor": "end" }, shown(value)),
  ]);
  const summary = series.map(([name, value]) => {
    const own = points.map(value).filter(isValue);
    return `${name}: now ${shown(own.at(-1) ?? 0)}, at most ${shown(Math.max(0, ...own))}`;
  }).join("; ");
  const pointer = h("g"), when = h("span");
  const readings = series.map(() => h("b"));
  const hide = () => {
    pointed.delete(title);
    pointer.replaceChildren();
    for (const text of [when, ...readings]) text.textContent = "";
  };
  const show = (at) => {
    const distance = (point) => Math.abs(point.at - at);
    const point = points.reduce((best, one) => (distance(one) < distance(best) ? one : best), points[0]);
    if (!point) return;
    pointed.set(title, point.at);
    fill(pointer, h("line.pointer", { x1: x(point.at), x2: x(point.at), y1: TOP, y2: HEIGHT - BOTTOM }),
      series.map(([, value], index) => isValue(value(point)) && h(`circle.dot.${CLASSES[index]}`, { cx: x(point.at), cy: y(value(point)), r: 3 })));
    series.forEach(([, value], index) => { readings[index].textContent = ` ${isValue(value(point)) ? shown(value(point)) : "–"}`; });
    when.textContent = new Date(point.at).toTimeString().slice(0, 8);
  };
  const follow = (event) => {
    const box = drawing.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * WIDTH;
    show(first + ((place - left) / (WIDTH - left - 4)) * (last - first));
  };
  const drawing = h("svg.chart", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}. ${summary}`, onpointermove: follow, onpointerdown: follow,
    // A finger leaves as soon as it is lifted; its values stay.
    onpointerleave: (event) => { if (event.pointerType !== "touch") hide(); },
  },
      marks, lines, pointer,
      h("text.label", { x: left, y: HEIGHT - 4 }, points.length ? clock(first) : ""),
      h("text.label", { x: WIDTH - 4, y: HEIGHT - 4, "text-anchor": "end" }, points.length ? clock(last) : ""));
  if (pointed.has(title)) show(pointed.get(title));
  return h("section.panel", null, h("h3", null, title), drawing,
    h("p.legend", null, series.map(([name], index) => h("span", null, h(`i.${CLASSES[index]}`), name, readings[index])), when));
}

const isValue = (value) => value !== null && value !== undefined;

/** Returns the points that have a value but no neighbour with one, through which no line goes. */
function lonely(points, value) {
  const has = (index) => index in points && isValue(value(points[index]));
  return points.filter((_, index) => has(index) && !has(index - 1) && !has(index + 1));
}

/** Returns the path data of a line, with a gap wherever a point has no value. */
function path(points, value, x, y) {
  let text = "", isDown = false;
  for (const point of points) {
    const own = value(point);
    if (!isValue(own)) { isDown = false; continue; }
    text += `${isDown ? "L" : "M"}${x(point.at).toFixed(1)} ${y(own).toFixed(1)}`;
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
