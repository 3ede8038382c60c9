// Converts field values to editable text and back. `typed` parses what `asText` and `dateText` write, and returns the same
// value. It throws for any other text, with an error that names the accepted forms.

import { readJSON, writeJSON } from "./json.js";

/**
 * Returns the wire protocol's name for a schema type such as `ENCRYPTED STRING` or `NUMBER PREFERRED AS INT64`.
 * @param {string} type
 */
export function wireType(type) {
  const name = type.replace(/^ENCRYPTED /, "").replace(/^NUMBER PREFERRED AS /, "");
  return name === "NUMBER" ? "DOUBLE" : name === "ASSET" ? "ASSETID" : name;
}

/**
 * Returns the type of a list's items; `undefined` for other types.
 * @param {string} type
 */
const itemType = (type) => /^LIST<(.*)>$/.exec(type.replace(/^ENCRYPTED /, ""))?.[1];

/** The accepted forms of a value, for error messages. */
const ACCEPTED = {
  STRING: "a string",
  INT64: "a whole number from -9223372036854775808 to 9223372036854775807",
  DOUBLE: "a number such as -1.5 or 6.02e23, within the range of a DOUBLE",
  TIMESTAMP: "milliseconds since 1970 such as -86400000, or a date such as 1969-12-31, 2026-05-01T10:00 (local time) or "
    + "2026-05-01T10:00:00.250Z",
  BYTES: "base64",
  LOCATION: "latitude, longitude such as 48.2, 16.37 (within ±90 and ±180), or a JSON object with more members",
  REFERENCE: "a record name, optionally followed by NONE, VALIDATE or DELETE_SELF, or a JSON object",
  ASSETID: "a JSON object of an uploaded asset",
};

/**
 * Returns a short placeholder for an input.
 * @param {string} type
 */
export function hint(type) {
  if (itemType(type)) return 'one value per line, or a JSON array such as ["a", ""]';
  switch (wireType(type)) {
    case "TIMESTAMP": return "2026-05-01T10:00 or milliseconds";
    case "LOCATION": return "latitude, longitude";
    case "REFERENCE": return "record name";
    case "BYTES": return "base64";
    default: return "";
  }
}

/**
 * Returns a field's value as the text of an input.
 * @param {{ value: any } | undefined} field
 * @param {string} type The schema's name of the type.
 */
export function asText(field, type) {
  if (field === undefined || field.value === null || field.value === undefined) return "";
  const { value } = field;
  if (!Array.isArray(value)) return itemText(value, wireType(type));
  const form = wireType(itemType(type) ?? "STRING");
  const lines = value.map((item) => itemText(item, form));
  const isPlain = lines.length > 0 && lines.every((line) => line !== "" && !/[\r\n]/.test(line)) && !/^\s*\[/.test(lines[0]);
  return isPlain ? lines.join("\n") : writeJSON(value);
}

function itemText(value, form) {
  if (typeof value === "string") return value;
  const { recordName, action, latitude, longitude } = Object(value);
  const texts = form === "REFERENCE" ? [recordName, `${recordName} ${action}`]
    : form === "LOCATION" ? [`${writeJSON(latitude)}, ${writeJSON(longitude)}`] : [];
  // Use the short form only if it loses nothing, else JSON.
  return texts.find((text) => isTakenFor(text, value, form)) ?? writeJSON(value);
}

function isTakenFor(text, value, form) {
  try { return writeJSON(ordered(itemOf(form, text))) === writeJSON(ordered(value)); } catch { return false; }
}

const ordered = (value) => Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)));

/**
 * Parses a text into the wire form of a field. Throws an error that names the accepted forms if the text is invalid.
 * @param {string} type The schema's name of the type.
 * @param {string} text
 */
export function typed(type, text) {
  const element = itemType(type);
  if (!element) return { value: itemOf(wireType(type), text), type: wireType(type) };
  const form = wireType(element);
  return { value: /^\s*\[/.test(text) ? listOf(form, text) : linesOf(form, text), type: `${form}_LIST` };
}

/**
 * Parses values separated by commas, or a JSON array.
 * @param {string} type The type of one value.
 * @param {string} text
 */
export function typedSeveral(type, text) {
  const form = wireType(type);
  const value = /^\s*\[/.test(text) ? listOf(form, text) : text.split(",").map((part) => {
    if (!part.trim()) throw new Error(`"${text}" has an empty value. ${SEVERAL}`);
    return itemOf(form, part.trim());
  });
  return { value, type: `${form}_LIST` };
}

const SEVERAL = 'Separate values with commas, or write a JSON array such as ["a, b", ""].';
const LINES = 'Write one value per line, or a JSON array such as ["a", "", "two\\nlines"].';

function linesOf(form, text) {
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  return lines.map((line, index) => {
    if (line === "") throw new Error(`Line ${index + 1} is empty. ${LINES}`);
    return itemOf(form, line);
  });
}

function listOf(form, text) {
  let items;
  try { items = readJSON(text); } catch (error) { throw new Error(`This is not a valid JSON array (${error.message}). ${LINES}`); }
  return items.map((item) => itemOf(form, item));
}

function refused(form, input) {
  const what = typeof input === "string" ? `"${input}"` : typeof input === "object" ? "This" : String(input);
  return new Error(`${what} is not ${ACCEPTED[form] ?? `a value of type ${form}`}.`);
}

/**
 * Parses one value.
 * @param {string} form
 * @param {any} input A text, or an item of a JSON array.
 */
function itemOf(form, input) {
  const value = parse[form]?.(typeof input === "string" && form !== "STRING" ? input.trim() : input);
  if (value === undefined) throw refused(form, input);
  return value;
}

/**
 * Parsers by type. Each returns `undefined` if it does not accept the input.
 * @type {Record<string, (input: any) => any>}
 */
const parse = {
  STRING: (input) => (typeof input === "string" ? input : undefined),
  INT64: (input) => {
    if (typeof input === "string") return /^[+-]?\d+$/.test(input) ? inRange(BigInt(input)) : undefined;
    return typeof input === "bigint" || Number.isSafeInteger(input) ? inRange(BigInt(input)) : undefined;
  },
  DOUBLE: (input) => {
    if (typeof input === "number") return Number.isFinite(input) ? input : undefined;
    const text = typeof input === "string" || typeof input === "bigint" ? String(input) : "";
    if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) return undefined;
    const value = Number(text);
    const isTooSmall = value === 0 && /[1-9]/.test(text.replace(/e.*/i, ""));
    const isTooLong = /^[+-]?\d+$/.test(text) && Number.isFinite(value) && BigInt(text) !== BigInt(value);
    return Number.isFinite(value) && !isTooSmall && !isTooLong ? value : undefined;
  },
  TIMESTAMP: (input) => parse.INT64(input) ?? (typeof input === "string" ? millisecondsOf(input) : undefined),
  BYTES: (input) =>
    typeof input === "string" && /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(input) ? input : undefined,
  LOCATION: (input) => {
    const value = typeof input === "string" && !input.startsWith("{") ? pairOf(input) : objectOf(input);
    const isPlace = typeof value?.latitude === "number" && typeof value.longitude === "number"
      && Math.abs(value.latitude) <= 90 && Math.abs(value.longitude) <= 180;
    return isPlace ? value : undefined;
  },
  REFERENCE: (input) => {
    if (typeof input !== "string" || input.startsWith("{")) {
      const value = objectOf(input);
      return typeof value?.recordName === "string" ? value : undefined;
    }
    const [, recordName, action = "NONE"] = /^(.*?)(?: (NONE|VALIDATE|DELETE_SELF))?$/s.exec(input) ?? [];
    return recordName ? { recordName, action } : undefined;
  },
  ASSETID: (input) => {
    const value = objectOf(input);
    return typeof value?.fileChecksum === "string" ? value : undefined;
  },
};

function inRange(whole) {
  if (BigInt.asIntN(64, whole) !== whole) return undefined;
  return Number.isSafeInteger(Number(whole)) ? Number(whole) : whole;
}

function pairOf(text) {
  const parts = text.split(",");
  const [latitude, longitude] = parts.map((part) => parse.DOUBLE(part.trim()));
  return parts.length === 2 ? { latitude, longitude } : undefined;
}

function objectOf(input) {
  if (typeof input !== "string") return input;
  try { return readJSON(input); } catch { return undefined; }
}

// Dates

const DATE = /^(\d{4}|[+-]\d{6})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,3})0*)?)?(Z|[+-]\d\d:?\d\d)?)?$/i;

/**
 * Returns a date's milliseconds since 1970; `undefined` if the date does not exist.
 * @param {string} text
 */
function millisecondsOf(text) {
  const found = DATE.exec(text);
  if (!found) return undefined;
  const [year, month, day, hour = 0, minute = 0, second = 0] = found.slice(1, 7).map((part) => (part === undefined ? undefined : Number(part)));
  const millisecond = Number((found[7] ?? "").padEnd(3, "0"));
  const [, sign, hours, minutes] = /^([+-])(\d\d):?(\d\d)$/.exec(found[8] ?? "") ?? [];
  if (Number(hours) > 23 || Number(minutes) > 59) return undefined;
  const offset = sign ? Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes)) * 60_000 : 0;
  const date = new Date(0);
  const isLocal = found[8] === undefined;
  if (isLocal) {
    date.setFullYear(year, month - 1, day);
    date.setHours(hour, minute, second, millisecond);
  } else {
    date.setUTCFullYear(year, month - 1, day);
    date.setUTCHours(hour, minute, second, millisecond);
  }
  // `Date` turns April 31st into May 1st; compare the parts to refuse it.
  const is = isLocal
    ? [date.getFullYear(), date.getMonth() + 1, date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds()]
    : [date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()];
  const wanted = [year, month, day, hour, minute, second];
  return is.every((part, index) => part === wanted[index]) ? date.getTime() - offset : undefined;
}

/**
 * Formats a time in the local time zone, with milliseconds if they are not zero. Returns the number itself if it is outside
 * of `Date`'s range.
 * @param {number | bigint | string} milliseconds
 */
export function dateText(milliseconds) {
  const date = new Date(Number(milliseconds));
  if (Number.isNaN(date.getTime())) return String(milliseconds);
  const digits = (value, count) => String(Math.abs(value)).padStart(count, "0");
  const year = date.getFullYear();
  const sign = year < 0 ? "-" : year > 9999 ? "+" : "";
  const day = `${sign}${digits(year, sign ? 6 : 4)}-${digits(date.getMonth() + 1, 2)}-${digits(date.getDate(), 2)}`;
  const rest = date.getMilliseconds() ? `.${digits(date.getMilliseconds(), 3)}` : "";
  return `${day} ${digits(date.getHours(), 2)}:${digits(date.getMinutes(), 2)}:${digits(date.getSeconds(), 2)}${rest}`;
}
