// Formats numbers and times for display.

import { stringEnd } from "./json.js";

/**
 * Formats a size in decimal units.
 * @param {number | null | undefined} count
 * @returns {string}
 */
export function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = count, unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** @param {number | null | undefined} value */
export const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));

/**
 * Formats a count with its noun.
 * @param {number} value
 * @param {string} one
 * @param {string} [many]
 */
export const counted = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

/** Formats a count; `isMore` marks one that stopped at a limit. */
export const upTo = (value, isMore) => number(value) + (isMore ? "+" : "");

/**
 * Formats a duration in milliseconds.
 * @param {number | null | undefined} value
 */
export function took(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1) return `${value.toFixed(2)} ms`;
  if (value < 1_000) return `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
  return `${(value / 1_000).toFixed(1)} s`;
}

/**
 * Formats a time in the local time zone.
 * @param {number | null | undefined} at Milliseconds since 1970.
 */
export function moment(at) {
  if (!at) return "–";
  const date = new Date(at);
  const two = (value) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/**
 * Formats the time since a moment.
 * @param {number | null | undefined} at
 */
export function ago(at) {
  if (!at) return "never";
  return `${span((Date.now() - at) / 1000)} ago`;
}

/**
 * Formats a duration in its largest unit.
 * @param {number} seconds
 */
export function span(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 3_600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

/**
 * Reformats a JSON text. Changes white space only, so every number and string keeps its exact form.
 * @param {string} text Valid JSON.
 * @param {number} [indent] Spaces per level; without it, one line.
 */
export function laidOut(text, indent = 0) {
  let out = "", depth = 0;
  const line = () => (indent ? `\n${" ".repeat(indent * depth)}` : "");
  for (let place = 0; place < text.length; ) {
    const letter = text[place];
    let end = place + 1;
    if (letter === '"') {
      end = stringEnd(text, end);
      out += text.slice(place, end);
    } else if (letter === "{" || letter === "[") {
      while (/\s/.test(text[end] ?? "")) end += 1;
      if (text[end] === "}" || text[end] === "]") {
        out += letter + text[end];
        end += 1;
      } else {
        depth += 1;
        out += letter + line();
      }
    } else if (letter === "}" || letter === "]") {
      depth -= 1;
      out += line() + letter;
    } else if (letter === ",") out += letter + line();
    else if (letter === ":") out += indent ? ": " : ":";
    else if (!/\s/.test(letter)) out += letter;
    place = end;
  }
  return out;
}

/**
 * Shortens an identifier, such as a record name, for a table.
 * @param {string} text
 * @param {number} [length]
 */
export const short = (text, length = 14) => (text && text.length > length ? `${text.slice(0, length)}…` : text ?? "");
