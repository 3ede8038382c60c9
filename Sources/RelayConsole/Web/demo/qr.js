// QR codes by ISO/IEC 18004: byte mode, error correction level M, versions 1 to 12 (up to 287 bytes).

/**
 * For each version: error correction bytes per block, and data bytes of each block.
 * @type {[number, number[]][]}
 */
const BLOCKS = [
  [10, [16]], [16, [28]], [26, [44]], [18, [32, 32]], [24, [43, 43]], [16, [27, 27, 27, 27]],
  [18, [31, 31, 31, 31]], [22, [38, 38, 39, 39]], [22, [36, 36, 36, 37, 37]], [26, [43, 43, 43, 43, 44]],
  [30, [50, 51, 51, 51, 51]], [22, [36, 36, 36, 36, 36, 36, 37, 37]],
];
/** For each version: the coordinates of the alignment patterns' centres, for both axes. */
const ALIGNMENT = [
  [], [6, 18], [6, 22], [6, 26], [6, 30], [6, 34], [6, 22, 38], [6, 24, 42], [6, 26, 46], [6, 28, 50], [6, 30, 54], [6, 32, 58],
];

// Arithmetic in GF(256) by tables of powers and logarithms.
const POWER = new Uint8Array(512);
const LOG = new Uint8Array(256);
for (let exponent = 0, value = 1; exponent < 255; exponent += 1) {
  POWER[exponent] = POWER[exponent + 255] = value;
  LOG[value] = exponent;
  value = value < 128 ? value * 2 : (value * 2) ^ 0x11d;
}
const times = (one, other) => (one && other ? POWER[LOG[one] + LOG[other]] : 0);

/** Returns the Reed-Solomon error correction bytes: the remainder of the data divided by the generator polynomial. */
export function correction(data, count) {
  let divisor = [1];
  for (let root = 0; root < count; root += 1) {
    const next = [...divisor, 0];
    divisor.forEach((factor, index) => { next[index + 1] ^= times(factor, POWER[root]); });
    divisor = next;
  }
  const rest = [...data, ...new Array(count).fill(0)];
  for (let index = 0; index < data.length; index += 1) {
    const lead = rest[index];
    divisor.forEach((factor, offset) => { rest[index + offset] ^= times(factor, lead); });
  }
  return rest.slice(data.length);
}

/** Returns the smallest version that holds the text, and the data bytes: mode, length, text and padding. */
function framed(text) {
  const bytes = new TextEncoder().encode(text);
  const version = 1 + BLOCKS.findIndex(([, blocks], index) =>
    blocks.reduce((sum, size) => sum + size, 0) >= bytes.length + (index < 9 ? 2 : 3));
  if (version === 0) throw new RangeError("The address is too long for a QR code.");
  const bits = [];
  const put = (value, count) => { for (let bit = count - 1; bit >= 0; bit -= 1) bits.push((value >> bit) & 1); };
  put(4, 4);
  put(bytes.length, version < 10 ? 8 : 16);
  for (const byte of bytes) put(byte, 8);
  const capacity = BLOCKS[version - 1][1].reduce((sum, size) => sum + size, 0);
  put(0, Math.min(4, capacity * 8 - bits.length));
  put(0, (8 - (bits.length % 8)) % 8);
  for (let filler = 0xec; bits.length < capacity * 8; filler ^= 0xec ^ 0x11) put(filler, 8);
  const data = [];
  for (let index = 0; index < bits.length; index += 8) {
    data.push(bits.slice(index, index + 8).reduce((sum, bit) => sum * 2 + bit, 0));
  }
  return { version, data };
}

/** Returns the data and error correction blocks, interleaved byte by byte. */
function interleaved(version, data) {
  const [count, sizes] = BLOCKS[version - 1];
  let start = 0;
  const blocks = sizes.map((size) => data.slice(start, (start += size)));
  const corrections = blocks.map((block) => correction(block, count));
  const woven = [];
  for (const parts of [blocks, corrections]) {
    for (let index = 0; index < Math.max(...parts.map((part) => part.length)); index += 1) {
      for (const part of parts) if (index < part.length) woven.push(part[index]);
    }
  }
  return woven;
}

const MASKS = [
  (x, y) => (x + y) % 2 === 0, (x, y) => y % 2 === 0, (x) => x % 3 === 0, (x, y) => (x + y) % 3 === 0,
  (x, y) => (Math.floor(y / 2) + Math.floor(x / 3)) % 2 === 0, (x, y) => ((x * y) % 2) + ((x * y) % 3) === 0,
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2 === 0, (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2 === 0,
];

/** Returns the 15 bits of format information: level M and the mask, with BCH error correction. */
function formatBits(mask) {
  let rest = mask << 10;
  for (let bit = 14; bit >= 10; bit -= 1) if ((rest >> bit) & 1) rest ^= 0x537 << (bit - 10);
  return ((mask << 10) | rest) ^ 0x5412;
}

function versionBits(version) {
  let rest = version << 12;
  for (let bit = 17; bit >= 12; bit -= 1) if ((rest >> bit) & 1) rest ^= 0x1f25 << (bit - 12);
  return (version << 12) | rest;
}

/** Returns the grid with the function patterns. Modules for data are `undefined`. */
function skeleton(version) {
  const size = version * 4 + 17;
  const grid = Array.from({ length: size }, () => new Array(size).fill(undefined));
  const put = (x, y, isDark) => { if (grid[y]?.[x] === undefined && x >= 0 && x < size && y >= 0 && y < size) grid[y][x] = isDark; };
  for (const [left, top] of [[0, 0], [size - 7, 0], [0, size - 7]]) {
    for (let y = -1; y <= 7; y += 1) {
      for (let x = -1; x <= 7; x += 1) {
        const ring = Math.max(Math.abs(x - 3), Math.abs(y - 3));
        put(left + x, top + y, ring !== 2 && ring !== 4);
      }
    }
  }
  const centres = ALIGNMENT[version - 1];
  const last = centres.length - 1;
  centres.forEach((cy, row) => centres.forEach((cx, column) => {
    // Three corners have finder patterns instead.
    if ((row === 0 && (column === 0 || column === last)) || (row === last && column === 0)) return;
    for (let y = -2; y <= 2; y += 1) {
      for (let x = -2; x <= 2; x += 1) put(cx + x, cy + y, Math.max(Math.abs(x), Math.abs(y)) !== 1);
    }
  }));
  for (let place = 8; place < size - 8; place += 1) {
    put(place, 6, place % 2 === 0);
    put(6, place, place % 2 === 0);
  }
  return grid;
}

function writeFormat(grid, version, mask) {
  const size = grid.length;
  const format = formatBits(mask);
  const along = [0, 1, 2, 3, 4, 5, 7, 8];
  for (let bit = 0; bit < 15; bit += 1) {
    const isDark = ((format >> bit) & 1) === 1;
    // The first copy: beside the upper left finder, down its right side and then along its bottom.
    if (bit < 8) grid[along[bit]][8] = isDark;
    else grid[8][along[14 - bit]] = isDark;
    // The second copy: beside the two other finders.
    if (bit < 8) grid[8][size - 1 - bit] = isDark;
    else grid[size - 15 + bit][8] = isDark;
  }
  grid[size - 8][8] = true;
  if (version < 7) return;
  const bits = versionBits(version);
  for (let bit = 0; bit < 18; bit += 1) {
    const isDark = ((bits >> bit) & 1) === 1;
    const [far, near] = [size - 11 + (bit % 3), Math.floor(bit / 3)];
    grid[near][far] = isDark;
    grid[far][near] = isDark;
  }
}

/** Returns the penalty of a mask: long runs, 2×2 blocks, patterns like a finder, and an imbalance of dark and light. */
function penalty(grid) {
  const size = grid.length;
  let sum = 0;
  const lines = [grid, grid.map((_, x) => grid.map((row) => row[x]))].flat();
  for (const line of lines) {
    const text = line.map((isDark) => (isDark ? "1" : "0")).join("");
    for (const run of text.match(/0{5,}|1{5,}/g) ?? []) sum += run.length - 2;
    for (const pattern of ["10111010000", "00001011101"]) {
      for (let at = text.indexOf(pattern); at >= 0; at = text.indexOf(pattern, at + 1)) sum += 40;
    }
  }
  let dark = 0;
  for (let y = 0; y < size; y += 1) {
    for (let x = 0; x < size; x += 1) {
      if (grid[y][x]) dark += 1;
      if (x && y && grid[y][x] === grid[y - 1][x] && grid[y][x] === grid[y][x - 1] && grid[y][x] === grid[y - 1][x - 1]) sum += 3;
    }
  }
  return sum + 10 * Math.floor(Math.abs((dark * 20) / (size * size) - 10));
}

/**
 * Returns the code as rows of booleans, `true` for dark, without the quiet zone of four modules around it.
 * @param {string} text
 */
export function qrCode(text) {
  const { version, data } = framed(text);
  const bits = interleaved(version, data).flatMap((byte) => [7, 6, 5, 4, 3, 2, 1, 0].map((bit) => (byte >> bit) & 1));
  const fixed = skeleton(version);
  // Reserves the modules of format and version, which are written again for each mask.
  writeFormat(fixed, version, 0);
  const size = fixed.length;
  const places = [];
  for (let right = size - 1, isUp = true; right > 0; right -= 2, isUp = !isUp) {
    // Skip the column of the timing pattern.
    if (right === 6) right -= 1;
    for (let step = 0; step < size; step += 1) {
      const y = isUp ? size - 1 - step : step;
      for (const x of [right, right - 1]) if (fixed[y][x] === undefined) places.push([x, y]);
    }
  }
  const drawn = MASKS.map((isFlipped, mask) => {
    const grid = fixed.map((row) => [...row]);
    places.forEach(([x, y], index) => { grid[y][x] = (bits[index] === 1) !== isFlipped(x, y); });
    writeFormat(grid, version, mask);
    return grid;
  });
  const penalties = drawn.map(penalty);
  return drawn[penalties.indexOf(Math.min(...penalties))];
}

/**
 * Returns the code as an SVG element.
 * @param {string} text
 */
export function qrImage(text) {
  const grid = qrCode(text);
  const size = grid.length + 8;
  const image = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  image.setAttribute("viewBox", `0 0 ${size} ${size}`);
  image.setAttribute("role", "img");
  image.setAttribute("aria-label", `QR code of ${text}`);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const squares = grid.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x + 4} ${y + 4}h1v1h-1z` : "")));
  path.setAttribute("d", squares.join(""));
  image.append(path);
  return image;
}
