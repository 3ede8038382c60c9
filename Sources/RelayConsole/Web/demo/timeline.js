// A sequence diagram of all steps: one column per step, the newest on the right. `detail` shows a step's messages.

import { writeJSON } from "../zonecast.js";
import { deviceName, personClass } from "./people.js";

const SVG = "http://www.w3.org/2000/svg";
const COLUMN = 62;
const LANE = 32;
const TOP = 20;
const LEFT = 118;
/** The height of the words below the lanes. */
const WORDS = 32;
/** The number of steps to keep. */
const KEPT = 150;

const svg = (name, attributes = {}, ...children) => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
};

/** The label and the shape of each kind of entry. */
const FORMS = {
  save: { word: "save", shape: "dot" },
  delete: { word: "delete", shape: "dot" },
  push: { word: "commit", shape: "up" },
  fetch: { word: "fetch", shape: "both" },
  accept: { word: "accept", shape: "both" },
  share: { word: "share", shape: "up" },
  query: { word: "poll", shape: "both" },
  notice: { word: "notice", shape: "down" },
  shows: { word: "shows", shape: "ring" },
  polled: { word: "shows", shape: "ring" },
  merge: { word: "merge", shape: "ring" },
  refused: { word: "refused", shape: "cross" },
  offline: { word: "offline", shape: "cross" },
  online: { word: "online", shape: "dot" },
  restart: { word: "restart", shape: "dot" },
  lost: { word: "purge", shape: "cross" },
};

/** Returns the kind of a call by its path; `undefined` for calls that are not drawn. */
function kindOf(exchange) {
  if (exchange.path.endsWith("records/modify")) {
    const isShare = exchange.body.operations.some(({ record }) => record.recordType === "cloudkit.share"
      || record.recordName === "cloudkit.zoneshare");
    return isShare ? "share" : "push";
  }
  if (exchange.path.endsWith("changes/zone") || exchange.path.endsWith("changes/database")) return "fetch";
  if (exchange.path.endsWith("records/accept")) return "accept";
  if (exchange.path.endsWith("records/query")) return "query";
  return undefined;
}

/** Returns whether a call is a fetch without changes. Such calls are not drawn. */
function isIdle(kind, { answer, error }) {
  if (error || !answer || kind !== "fetch") return false;
  return !(answer.zones ?? []).some((zone) => zone.deleted || zone.serverErrorCode || zone.records?.length);
}

/** Returns the error code of a call or of the first failed record or zone in it; `undefined` if all succeeded. */
function faultOf(exchange) {
  if (!exchange) return undefined;
  if (exchange.error) return "no answer";
  const answer = exchange.answer ?? {};
  return answer.serverErrorCode ?? (answer.records ?? answer.zones ?? []).find((item) => item.serverErrorCode)?.serverErrorCode;
}

function wordOf(entry) {
  const fault = faultOf(entry.exchange);
  const known = { "no answer": "no answer", CONFLICT: "conflict", ACCESS_DENIED: "refused" };
  if (fault) return known[fault] ?? "failed";
  return FORMS[entry.kind].word + (entry.others ? ` ${entry.others.length + 1}` : "");
}

/** The reasons of refusals by code, for people who do not know the codes. */
const REASONS = {
  "no answer": "the relay did not answer, because it was stopped or the connection was cut. The device keeps the edit and sends "
    + "it again.",
  CONFLICT: "another device changed this note first, so the relay did not overwrite it. The device merges both edits and sends "
    + "the result.",
  ACCESS_DENIED: "this user may only read these notes. The device puts the old text back; everything else goes on.",
  NOT_FOUND: "the note no longer exists on the relay, so it is removed here too.",
  ZONE_NOT_FOUND: "these notes no longer exist, or are no longer shared with this user. They are removed here.",
  AUTHENTICATION_FAILED: "the relay does not know this user or API token.",
  AUTHENTICATION_REQUIRED: "no user is signed in on this device.",
};

/** Returns why a step is red, as a sentence; `undefined` for other steps. */
function whyOf(entry) {
  const fault = faultOf(entry.exchange);
  if (fault) return REASONS[fault] ?? `the relay answered ${fault}: ${entry.exchange.answer?.reason ?? "see the answer"}.`;
  if (entry.kind === "offline") return "this device was switched offline. It keeps its edits and sends them when it is back.";
  if (entry.kind === "lost") return "the owner stopped sharing these notes with this user, so they are removed here.";
  if (entry.kind !== "refused") return undefined;
  const code = entry.frame?.serverErrorCode;
  return REASONS[code] ?? `the relay answered ${code}: ${entry.frame?.reason ?? "see the answer"}.`;
}

/** Returns the symbols of the timeline with their meanings. */
export function legendItems() {
  const items = [
    ["save", "dot", "edit on a device"], ["push", "up", "sent to the relay"], ["notice", "down", "notice: something changed"],
    ["fetch", "both", "fetch"], ["shows", "ring", "shown on a device"], ["refused", "cross", "refused, offline or failed"],
  ];
  return items.map(([kind, shape, text]) => {
    const item = document.createElement("li");
    const image = svg("svg", { class: `step ${kind}`, width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" });
    const line = (d) => image.append(svg("path", { class: "arrow", d }));
    if (shape === "dot") image.append(svg("circle", { class: "dot", cx: 8, cy: 8, r: 5 }));
    if (shape === "ring") image.append(svg("circle", { class: "ring", cx: 8, cy: 8, r: 5 }));
    if (shape === "up") line("M8 15V2M4 7l4-5 4 5");
    if (shape === "down") line("M8 1v13M4 9l4 5 4-5");
    if (shape === "both") line("M5 15V2M2 6l3-4 3 4M11 1v13M8 10l3 4 3-4");
    if (shape === "cross") line("M3 3l10 10m0-10L3 13");
    item.append(image, text);
    return item;
  });
}

export class Timeline {
  /**
   * @param {HTMLElement} frame The scrolling element.
   * @param {HTMLElement} detail Shows the messages of the selected step.
   * @param {string[]} lanes Names of the clients, and "relay".
   */
  constructor(frame, detail, lanes) {
    this.frame = frame;
    this.detail = detail;
    this.lanes = lanes;
    this.entries = [];
    this.numbers = 0;
    /**
     * The record versions that polls have returned.
     * @type {Set<string>}
     */
    this.polled = new Set();
    this.height = TOP + LANE * lanes.length + WORDS;
    this.drawing = svg("svg", { role: "group", "aria-label": "Timeline: the newest step is the last", height: this.height });
    this.labels = svg("svg", { class: "lanes", width: LEFT, height: this.height, "aria-hidden": "true" });
    lanes.forEach((lane, index) => {
      const y = this.#y(lane);
      if (lane === "relay") return this.labels.append(svg("text", { x: 8, y: y + 4, class: "relay" }, "Relay"));
      const dot = svg("circle", { class: "presence", "data-lane": lane, cx: 13, cy: y, r: 4.5 });
      this.labels.append(svg("g", { class: personClass(lane.split("/")[0]) }, dot,
        svg("text", { x: 24, y: y + 4 }, deviceName(lane))));
    });
    frame.append(this.labels, this.drawing);
    this.#draw();
    this.drawing.addEventListener("keydown", (event) => this.#key(event));
    for (const type of ["pointerover", "focusin", "click"]) {
      this.drawing.addEventListener(type, (event) => this.#look(event.target.closest("[data-number]"), type));
    }
  }

  /** Shows whether a client is connected. */
  showPresence(lane, isLive) {
    this.labels.querySelector(`[data-lane="${lane}"]`)?.classList.toggle("live", isLive);
  }

  #y(lane) { return TOP + LANE / 2 + LANE * this.lanes.indexOf(lane); }

  clear() {
    this.entries = [];
    this.#draw();
  }

  /** @param {any} entry An entry of a client's journal. `delay` is the time from a save until this device showed it, in ms. */
  add(entry) {
    const kind = entry.kind === "exchange" ? kindOf(entry.exchange) : entry.kind;
    if (!FORMS[kind] || !this.lanes.includes(entry.who) || (entry.exchange && isIdle(kind, entry.exchange))) return;
    if (kind === "query" && !this.#hasNews(entry)) return;
    const last = this.entries.at(-1);
    if (kind === "shows" && last?.kind === kind && last.who === entry.who && entry.at - last.latest < 30) {
      // Combine the notes of one fetch into one step.
      last.others = [...(last.others ?? []), { [entry.name]: entry.note ?? entry.text }];
      last.latest = entry.at;
      return this.#drawSoon();
    }
    const made = { ...entry, kind, number: this.numbers += 1, latest: entry.at };
    // A call is reported when its answer arrives. Insert it by its start time.
    let place = this.entries.length;
    while (place > 0 && this.entries[place - 1].at > made.at) place -= 1;
    this.entries.splice(place, 0, made);
    this.entries.splice(0, this.entries.length - KEPT);
    this.#drawSoon();
  }

  /** Returns whether a poll found new versions. Each poll also returns the newest known record again. */
  #hasNews({ who, exchange }) {
    const found = (exchange.answer?.records ?? []).map((record) => `${who}/${record.recordName}/${record.recordChangeTag}`);
    const isNews = found.some((version) => !this.polled.has(version));
    for (const version of found) this.polled.add(version);
    return isNews;
  }

  #drawSoon() {
    if (this.isDue) return;
    this.isDue = true;
    setTimeout(() => this.#draw(), 40);
  }

  #draw() {
    this.isDue = false;
    const isAtEnd = this.frame.scrollLeft + this.frame.clientWidth >= this.frame.scrollWidth - 2 * COLUMN;
    const active = /** @type {SVGElement} */ (document.activeElement);
    const focused = this.drawing.contains(active) ? active.dataset.number : undefined;
    const width = Math.max(this.entries.length * COLUMN + 24, this.frame.clientWidth - LEFT - 4);
    this.drawing.setAttribute("width", String(width));
    const lines = this.lanes.map((lane) => svg("line", {
      x1: 0, x2: width, y1: this.#y(lane), y2: this.#y(lane), class: lane === "relay" ? "lane relay" : "lane",
    }));
    this.drawing.replaceChildren(...lines, ...this.entries.map((entry, index) => this.#step(entry, index)));
    if (focused) this.drawing.querySelector(`[data-number="${focused}"]`)?.focus({ preventScroll: true });
    const isLooking = this.drawing.matches(":hover, :focus-within");
    if (isAtEnd && !isLooking) this.frame.scrollLeft = this.frame.scrollWidth;
  }

  #step(entry, index) {
    const x = 34 + index * COLUMN;
    const [own, relay] = [this.#y(entry.who), this.#y("relay")];
    const form = FORMS[entry.kind];
    const fault = faultOf(entry.exchange);
    const isBad = Boolean(fault);
    const isLast = index === this.entries.length - 1;
    const group = svg("g", {
      class: `step ${entry.kind}${isBad ? " bad" : ""}`, "data-number": entry.number, role: "img",
      tabindex: isLast ? 0 : -1, "aria-label": this.#sentence(entry),
    });
    group.append(svg("rect", { class: "hit", x: x - COLUMN / 2, y: 2, width: COLUMN, height: this.height - 4, rx: 6 }));
    const arrow = (x1, y1, x2, y2) => {
      const tip = Math.sign(y2 - y1) * 7;
      const points = `${x2 - 4},${y2 - tip} ${x2},${y2} ${x2 + 4},${y2 - tip}`;
      group.append(svg("line", { class: "arrow", x1, y1, x2, y2 }), svg("polyline", { class: "arrow", points }));
    };
    const edge = Math.sign(relay - own) * 6;
    if (form.shape === "up") arrow(x - 12, own, x, relay - edge);
    if (form.shape === "down") arrow(x - 12, relay, x, own - edge);
    if (form.shape === "both") {
      arrow(x - 14, own, x - 3, relay - edge);
      arrow(x + 3, relay, x + 14, own - edge);
    }
    const cross = (y) => group.append(svg("path", { class: "arrow", d: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10` }));
    if (form.shape === "up" && !isBad) group.append(svg("circle", { class: "dot", cx: x, cy: relay, r: 6 }));
    if (form.shape === "up" && isBad) cross(relay);
    if (form.shape === "dot") group.append(svg("circle", { class: "dot", cx: x, cy: own, r: 6 }));
    if (form.shape === "ring") group.append(svg("circle", { class: "ring", cx: x, cy: own, r: 6 }));
    if (form.shape === "cross") cross(own);
    const wordY = this.height - WORDS + 12;
    group.append(svg("text", { x, y: wordY, class: "word" }, wordOf(entry)));
    if (whyOf(entry)) group.append(svg("text", { x, y: wordY + 14, class: "why" }, "why?"));
    const time = { x, y: 13, class: entry.delay === undefined ? "time" : "time delay" };
    group.append(svg("text", time, this.#time(entry, this.entries[index - 1])));
    return group;
  }

  /** Returns a step's time label: its delay, the time since the step before, or after a pause its absolute time. */
  #time(entry, before) {
    if (entry.delay !== undefined) return `${Math.round(entry.delay)} ms`;
    if (before && entry.at - before.at < 1000) return `+${Math.round(entry.at - before.at)}`;
    return `${(entry.at / 1000).toFixed(1)} s`;
  }

  #sentence(entry) {
    const { who, text, note, delay, exchange, others } = entry;
    const about = text ?? note?.title ?? (exchange ? `${exchange.status || "no answer"}` : "");
    const more = others ? ` and ${others.length} more` : "";
    const took = delay === undefined ? "" : `, ${Math.round(delay)} milliseconds after the save`;
    return `${deviceName(who)}: ${wordOf(entry)}${about ? `, ${about}` : ""}${more}${took}`;
  }

  /** Moves between steps by arrow keys. The tab key stops at one step only. */
  #key(event) {
    const steps = [...this.drawing.querySelectorAll(".step")];
    const now = steps.indexOf(document.activeElement);
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: steps.length - 1 }[event.key];
    if (next === undefined || !steps[next]) return;
    event.preventDefault();
    for (const step of steps) step.setAttribute("tabindex", step === steps[next] ? "0" : "-1");
    steps[next].focus();
    steps[next].scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  #look(step, type) {
    if (!step) return;
    const entry = this.entries.find(({ number }) => String(number) === step.dataset.number);
    if (!entry || (type === "pointerover" && entry === this.shown)) return;
    this.shown = entry;
    for (const other of this.drawing.querySelectorAll(".looked-at")) other.classList.remove("looked-at");
    step.classList.add("looked-at");
    this.detail.replaceChildren(...this.#messages(entry));
  }

  #messages(entry) {
    const head = document.createElement("h3");
    head.textContent = this.#sentence(entry);
    const parts = [head];
    const why = whyOf(entry);
    if (why) {
      const text = document.createElement("p");
      text.className = "why";
      text.textContent = `Why: ${why}`;
      parts.push(text);
    }
    const show = (title, value) => {
      if (value === undefined) return;
      const caption = document.createElement("h4");
      caption.textContent = title;
      const text = document.createElement("pre");
      text.textContent = typeof value === "string" ? value : writeJSON(value, 2);
      text.tabIndex = 0;
      const part = document.createElement("div");
      part.append(caption, text);
      parts.push(part);
    };
    const { exchange } = entry;
    if (exchange) {
      show(`${exchange.method} ${exchange.path}`, exchange.body);
      const took = (exchange.ended - exchange.started).toFixed(1);
      show(`${exchange.status || "no answer"} after ${took} ms`, exchange.error ?? exchange.answer);
    }
    if (entry.frame) show(entry.kind === "notice" ? "frame on the socket" : "response of the relay", { [entry.kind]: entry.frame });
    if (exchange || entry.frame) return parts;
    show(entry.name ? `Note/${entry.name}` : "", entry.note ?? entry.text ?? entry.kind);
    show("also in this fetch", entry.others);
    return parts;
  }
}
