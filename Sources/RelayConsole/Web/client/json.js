// JSON with exact numbers.

/** Marks the digits of a large number while `JSON.parse` works. Random, so that no text contains it. */
const MARK = `${Array.from(crypto.getRandomValues(new Uint32Array(4))).join("-")}:`;

/**
 * Parses JSON. Whole numbers for which `Number.isSafeInteger` is false become `BigInt`.
 * @param {string} text
 * @returns {any}
 */
export function readJSON(text) {
  // Such a number has at least 16 digits; without them `JSON.parse` is exact.
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const revive = (key, value) => {
    if (key.startsWith(MARK)) throw new SyntaxError("a member name is missing");
    return typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value;
  };
  try {
    return JSON.parse(withMarks(text), revive);
  } catch {
    // Throws the same error with positions in the original text.
    return JSON.parse(text);
  }
}

/** Replaces each whole number that is not safe with a marked string. */
function withMarks(text) {
  const token = /"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  let marked = "", copied = 0;
  for (let found; (found = token.exec(text)); ) {
    const [word] = found;
    if (word === '"') token.lastIndex = stringEnd(text, token.lastIndex);
    else if (!/[.eE]/.test(word) && !Number.isSafeInteger(Number(word))) {
      marked += `${text.slice(copied, found.index)}"${MARK}${word}"`;
      copied = token.lastIndex;
    }
  }
  return marked + text.slice(copied);
}

/**
 * The index after the closing quote of a string in a JSON text.
 * @param {string} text
 * @param {number} start The index after the opening quote.
 */
export function stringEnd(text, start) {
  for (let end = start; ; end += 1) {
    end = text.indexOf('"', end);
    if (end < 0) return text.length;
    let slashes = 0;
    while (text[end - 1 - slashes] === "\\") slashes += 1;
    if (slashes % 2 === 0) return end + 1;
  }
}

/** Thrown for a value that JSON cannot represent; `path` names its place. */
export class UnwritableValue extends TypeError {
  /**
   * @param {string} what
   * @param {(string | number)[]} path
   */
  constructor(what, path) {
    super(`${what} cannot be written as JSON (at ${path.join(".") || "the top"}).`);
    this.name = "UnwritableValue";
    this.what = what;
    this.path = path;
  }
}

/**
 * Writes JSON like `JSON.stringify`, with `BigInt` and all digits of every whole number. Throws an `UnwritableValue` for
 * `NaN`, infinities and invalid dates, which `JSON.stringify` turns into `null`.
 * @param {any} value
 * @param {number} [indent] Spaces per level; without it, one line.
 * @returns {string | undefined} `undefined` for `undefined` and functions, like `JSON.stringify`.
 */
export function writeJSON(value, indent = 0) { return writeValue(value, [], indent ? " ".repeat(indent) : "", ""); }

/**
 * @param {any} value
 * @param {(string | number)[]} path
 * @param {string} step
 * @param {string} margin
 * @returns {string | undefined}
 */
function writeValue(value, path, step, margin) {
  if (value instanceof Date && Number.isNaN(value.getTime())) throw new UnwritableValue("An invalid date", [...path]);
  // Must come before `toJSON`: some programs add a `BigInt.prototype.toJSON` that returns a string.
  if (typeof value === "bigint") return value.toString();
  if (typeof value?.toJSON === "function") value = value.toJSON(String(path.at(-1) ?? ""));
  if (value instanceof Number || value instanceof String || value instanceof Boolean) value = value.valueOf();
  if (typeof value === "number") return writeNumber(value, path);
  if (typeof value === "bigint") return value.toString();
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const inner = margin + step;
  const parts = [];
  const add = (name, key, member) => {
    path.push(name);
    const text = writeValue(member, path, step, inner);
    path.pop();
    if (text !== undefined || Array.isArray(value)) parts.push(key + (text ?? "null"));
  };
  if (Array.isArray(value)) for (let index = 0; index < value.length; index += 1) add(index, "", value[index]);
  else for (const name of Object.keys(value)) add(name, `${JSON.stringify(name)}:${step && " "}`, value[name]);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (!parts.length) return open + close;
  return step ? `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${margin}${close}` : open + parts.join(",") + close;
}

function writeNumber(value, path) {
  if (!Number.isFinite(value)) throw new UnwritableValue(String(value), [...path]);
  if (Object.is(value, -0)) return "-0";
  // `String` pads the digits of large numbers with zeros; `BigInt` writes the exact value.
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) <= 2 ** 63) return BigInt(value).toString();
  return String(value);
}
