// The page: three clients side by side or a single one, with the actions, the tour and the timeline.

import { Client } from "./client.js";
import { audienceAddress, currentVisit, enter, isGuest, isHost, leave } from "./guests.js";
import { Pacer } from "./pacer.js";
import { Pane, element } from "./pane.js";
import { deviceName } from "./people.js";
import { qrImage } from "./qr.js";
import { acceptShare, setPermission, shareZone, stopSharing } from "./sharing.js";
import { Timeline, legendItems } from "./timeline.js";
import { Tour } from "./tour.js";
import { World, pause, until } from "./world.js";

const BOARD_SECONDS = 5;
const address = new URL(location.href);
const asked = (name) => address.searchParams.get(name) ?? undefined;
const visit = currentVisit();
const place = {
  container: visit?.container ?? asked("container") ?? "iCloud.org.zonecast.demo",
  environment: /** @type {"development" | "production"} */ (asked("environment") ?? "development"),
  apiToken: visit?.apiToken ?? asked("apiToken"),
  users: visit?.users,
  // Only a relay in `--dev` accepts calls without an API token. It accepts any user name.
  isDev: !visit && !asked("apiToken"),
  boardType: "Board",
};
const guest = isGuest ? Object.keys(visit?.users ?? {})[0] : undefined;
const isAlone = Boolean(asked("user")) || isGuest;
const cast = isAlone
  ? [[guest ?? asked("user") ?? "guest", asked("device") ?? "phone"]] : [["alice", "phone"], ["alice", "laptop"], ["bob", "tablet"]];

/** The notes of a first visit. */
const FIRST_NOTES = ["Buy milk", "Call Bob", "Water the plants"];
const INVITATION = "Type a note on any device and press Enter: it appears on the other ones. Or run the tour.";

/** @param {string} id @returns {HTMLElement & { disabled?: boolean }} */
const $ = (id) => document.getElementById(id);
const listeners = new Set();
const timeline = isAlone ? undefined
  : new Timeline($("timeline"), $("detail"), ["alice/phone", "alice/laptop", "relay", "bob/tablet"]);

/** Receives every step of every client. */
function journal(entry) {
  const delay = world.heed(entry);
  if (delay !== undefined) entry.delay = delay;
  timeline?.add(entry);
  if (entry.kind === "shows") panes.find((pane) => pane.client.name === entry.who)?.mark(entry.name);
  for (const listener of listeners) listener(entry);
}

function say(text, isBad = false) {
  $("message").textContent = text;
  $("message").classList.toggle("bad", isBad);
}
const complain = (error) => say(error.message ?? String(error), true);

const clients = cast.map(([user, device]) => new Client(place, user, device, journal));
const world = new World(place, clients);
const panes = clients.map((client) => new Pane(client, complain));
const [phone, , tablet] = clients;

for (const pane of panes) {
  pane.isAlone = isAlone;
  pane.client.addEventListener("change", () => {
    timeline?.showPresence(pane.client.name, Boolean(pane.client.isLive));
    if (pane.client.isUnknown) askForToken();
  });
  pane.ownerName = (zone) => clients.find((client) => client.userID === zone.zoneID.ownerRecordName)?.user
    ?? (isGuest ? "alice" : undefined);
  $("panes").append(pane.root);
}

/** Takes the lock of a client's store. Two clients on one store would overwrite each other's changes. */
async function claim(client) {
  if (!navigator.locks) return true;
  return new Promise((resolve) => {
    // After a reload the old page may hold the lock for a moment.
    const signal = /** @type {any} */ (AbortSignal).timeout(3_000);
    navigator.locks.request(client.database, { signal }, () => {
      resolve(true);
      // The lock is held until the page is closed.
      return new Promise(() => {});
    }).catch(() => resolve(false));
  });
}

async function begin() {
  if ((isGuest || isHost) && !visit) return askToJoin();
  $("place").textContent = `${place.container}, ${place.environment}`;
  document.body.classList.toggle("alone", isAlone);
  document.body.classList.toggle("guest", isGuest);
  $("legend").append(...legendItems());
  if (isAlone) document.title = `${deviceName(cast[0].join("/"))} – Zonecast`;
  if (!(await Promise.all(clients.map(claim))).every(Boolean)) {
    say("This demo is already open in another window of this browser. Close that window, then reload this page.", true);
    for (const button of document.querySelectorAll("button")) button.disabled = true;
    return;
  }
  await Promise.all(clients.map((client) => client.open()));
  followBoard();
  if (isGuest) return acceptInvitation();
  if (isAlone) return;
  prepareActions();
  prepareCode();
  await prepareRestart();
  document.body.dataset.ready = "yes";
  await welcome();
}

/** Adds the first notes if there are none, and invites the user to type. */
async function welcome() {
  await until("every client to be up to date", () => clients.every((client) => client.isSettled || client.isUnknown), 60, 50);
  if (isTouring || clients.some((client) => client.isUnknown)) return;
  if (!clients.some((client) => client.notes().length)) await addFirstNotes();
  if (!$("message").textContent) say(INVITATION);
  if (isHost) await invite();
}

// The audience

/** Asks for the PIN. A link with the PIN or the host's secret enters at once. */
async function askToJoin() {
  document.body.classList.add("alone");
  $("panes").hidden = true;
  $("join").hidden = false;
  const form = $("join").querySelector("form");
  const input = /** @type {HTMLInputElement} */ (form.elements.namedItem("pin"));
  const tryEntry = async (entry) => {
    try {
      await enter(entry);
      history.replaceState(null, "", location.href.split("#")[0]);
      location.reload();
    } catch (error) {
      $("join-trouble").textContent = error.message;
      input.focus();
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    tryEntry({ pin: input.value });
  });
  const secret = location.hash.slice(1);
  if (secret) await tryEntry(isHost ? { host: secret } : { pin: secret });
  else input.focus();
}

/** Shares Alice's notes with all guests, and shows them how to join. */
async function invite() {
  const { privateDatabase } = phone.container;
  const share = await privateDatabase.zoneShare("Notes")
    ?? await privateDatabase.share("Notes", { title: "Notes", publicPermission: "READ_WRITE" });
  phone.keepShare(share);
  await enter({ host: visit.hostSecret, invitation: share.shortGUID ?? share.url });
  const link = audienceAddress(visit.pin);
  const shown = audienceAddress().replace(/#$/, "");
  $("code").replaceChildren(qrImage(link), element("div", {},
    element("p", {}, "Join with your phone: scan the code, or open ", element("b", {}, shown), " and enter the PIN"),
    element("p", { className: "pin" }, visit.pin),
    element("p", { className: "quiet" }, "Guests write into Alice's notes. Everything is deleted at the end.")));
  say("The audience can join now.");
  $("code").hidden = false;
  document.body.dataset.invites = "yes";
}

/** Accepts the host's share, so that a guest sees Alice's notes. */
async function acceptInvitation() {
  const [client] = clients;
  await until("this device to be connected", () => client.isSettled || client.isUnknown, 60, 50);
  if (client.isUnknown) {
    // The visit is of a demo that has ended.
    leave();
    location.reload();
    return;
  }
  while (!client.sharedZones.length) {
    // The host may not be ready yet.
    const { invitation } = await askMeans().catch(() => ({}));
    if (invitation) await acceptShare(client, invitation);
    await pause(2_000);
  }
}

async function addFirstNotes() {
  for (const title of FIRST_NOTES) {
    phone.add(title);
    // Notes are listed by their time of creation, in milliseconds.
    await pause(2);
  }
}

/** Replaces the panes with a sentence and a form, for a relay that does not know the container or its API token. */
function askForToken() {
  if (!$("entry").hidden) return;
  $("entry-text").textContent = place.apiToken
    ? "This relay does not accept the API token for this container. Ask its operator for the demo's link, or enter both here."
    : "This relay is not open to everyone. Ask its operator for the demo's link, or enter its container and API token here.";
  const form = $("entry").querySelector("form");
  for (const name of ["container", "apiToken"]) {
    form.elements[name].value = place[name] ?? "";
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const next = new URL(location.href);
    for (const name of ["container", "apiToken"]) next.searchParams.set(name, form.elements[name].value.trim());
    location.href = next.href;
  });
  $("entry").hidden = false;
  for (const hidden of document.querySelectorAll("#panes, #steps, #actions, #message, footer")) {
    /** @type {HTMLElement} */ (hidden).hidden = true;
  }
  form.elements[place.apiToken ? "apiToken" : "container"].focus();
}

function followBoard() {
  const poll = async () => {
    for (const client of clients) {
      if (client.isLive && client.isSetUp) await client.board.poll().catch(() => {});
    }
    setTimeout(poll, BOARD_SECONDS * 1000);
  };
  poll();
}

// Actions

let means = {};
let isTouring = false;
const pacer = new Pacer();

function permission() {
  const others = phone.zones.get("Notes")?.share?.participants.filter((one) => one.type !== "OWNER") ?? [];
  return others[0]?.permission;
}

function showActions() {
  const now = permission();
  $("share").disabled = isTouring || Boolean(now) || !tablet.userID;
  $("permission").disabled = $("stop").disabled = isTouring || !now;
  $("permission").textContent = now === "READ_WRITE" ? "Make read-only" : "Make read-write";
  for (const id of ["run-tour", "reset", "restart"]) $(id).disabled = isTouring;
}

const actions = {
  "run-tour": runTour,
  async share() {
    const share = await shareZone(phone, tablet.userID, "READ_ONLY");
    await acceptShare(tablet, share.url ?? share.shortGUID);
    say("Bob can read Alice's notes but not edit them. Edit one on his tablet to see what happens.");
  },
  async permission() {
    const next = permission() === "READ_WRITE" ? "READ_ONLY" : "READ_WRITE";
    await setPermission(phone, next);
    say(next === "READ_WRITE" ? "Bob may write now." : "Bob may only read now.");
  },
  async stop() {
    await stopSharing(phone);
    say("No longer shared: Alice's notes are removed from Bob's tablet.");
  },
  async restart() {
    say("The relay is killed and restarted. Keep editing: nothing is lost.");
    await means.restart();
    say("The relay is running again.");
  },
  async reset() {
    say("Resetting …");
    for (const client of clients) if (!client.isOnline) client.goOnline();
    await stopSharing(phone).catch(() => {});
    await world.clear();
    for (const client of clients) await client.reset();
    timeline.clear();
    $("tour").hidden = true;
    say("");
    await welcome();
  },
};

function prepareActions() {
  for (const [id, act] of Object.entries(actions)) {
    $(id).addEventListener("click", () => act().catch(complain).finally(showActions));
  }
  for (const client of clients) client.addEventListener("change", showActions);
  $("pause").addEventListener("click", () => pacer.toggle());
  $("next").addEventListener("click", () => pacer.next());
  $("speed").addEventListener("change", () => pacer.setSpeed(/** @type {any} */ ($("speed")).value));
  $("end-tour").addEventListener("click", () => {
    $("tour").hidden = true;
    say(INVITATION);
  });
  pacer.addEventListener("change", () => {
    $("pause").textContent = pacer.isPaused ? "Continue" : "Pause";
    $("tour").classList.toggle("paused", pacer.isPaused);
  });
  const keys = { s: "share", w: "permission", l: "stop", k: "restart", t: "run-tour", p: "pause", n: "next" };
  let current = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /** @type {Element} */ (event.target).matches("input[type=text]")) return;
    if (/** @type {Element} */ (event.target).matches("select")) return;
    const pane = panes[Number(event.key) - 1];
    if (pane) {
      current = Number(event.key) - 1;
      pane.root.focus();
    } else if (event.key === "a") {
      event.preventDefault();
      panes[current].focusAdd();
    } else if (event.key === "o") {
      panes[current].toggle();
    } else if (keys[event.key] && $(keys[event.key]).offsetParent) {
      $(keys[event.key]).click();
    }
  });
  for (const [index, pane] of panes.entries()) pane.root.addEventListener("focusin", () => { current = index; });
}

async function runTour() {
  isTouring = true;
  showActions();
  delete document.body.dataset.tour;
  for (const id of ["tour", "pause", "next"]) $(id).hidden = false;
  $("end-tour").hidden = true;
  $("tour").className = "";
  $("checks").replaceChildren();
  $("scene").textContent = "The tour begins with empty lists";
  $("verdict").textContent = "";
  say("");
  if (pacer.isPaused) pacer.toggle();
  const tour = new Tour(world, {
    restart: means.restart, boardSeconds: BOARD_SECONDS, pacer,
    listen: (listener) => listeners.add(listener), unlisten: (listener) => listeners.delete(listener),
  });
  const count = tour.scenes.length;
  try {
    const held = await tour.play((line) => showScene(line, count));
    document.body.dataset.tour = held ? "held" : "failed";
  } catch (error) {
    document.body.dataset.tour = "failed";
    throw error;
  } finally {
    isTouring = false;
    for (const id of ["pause", "next"]) $(id).hidden = true;
    $("end-tour").hidden = false;
    showActions();
  }
}

const MARKS = { runs: "…", held: "✔", failed: "✘" };

/**
 * Shows a line of the tour: the scene's title and text at the top, and its mark in the list of scenes.
 * @param {{ number?: number, title: string, state: string, text: string }} line
 * @param {number} count The number of scenes.
 */
function showScene({ number, title, state, text }, count) {
  const isWhole = number === undefined;
  const outcome = state === "held" ? "Every check passed" : "A check failed";
  $("scene").textContent = isWhole ? `${MARKS[state]} ${outcome}` : `Scene ${number} of ${count}: ${title}`;
  $("scene").className = isWhole ? state : "";
  const words = state === "runs" ? text : `${MARKS[state]} ${text}`;
  const tell = () => {
    $("verdict").textContent = isWhole ? text : words;
    $("verdict").className = state;
  };
  tell();
  if (isWhole) return;
  const line = $("checks").children[number - 1] ?? $("checks").appendChild(element("li"));
  line.className = state;
  const button = element("button", { type: "button", title: `${title}: ${text}` }, `${MARKS[state]} ${number}`);
  button.setAttribute("aria-label", `Scene ${number}, ${title}: ${words}`);
  button.addEventListener("click", () => {
    if (isTouring) return;
    $("scene").textContent = `Scene ${number} of ${count}: ${title}`;
    $("scene").className = "";
    tell();
  });
  line.replaceChildren(button);
}

const askMeans = async () => (await fetch("means.json", { cache: "no-store" })).json();

/** Sets up the restart of the relay, which a relay in `--dev` may offer. */
async function prepareRestart() {
  const known = await askMeans().catch(() => ({}));
  if (!known.restart) return;
  means.restart = async () => {
    const before = (await askMeans()).run;
    await fetch("restart", { method: "POST", headers: { "X-Zonecast-Demo": "restart" } }).catch(() => {});
    await until("the relay to restart", async () => {
      const now = await askMeans().catch(() => undefined);
      return now && now.run !== before;
    }, 30, 200);
  };
  $("restart").hidden = false;
}

/** Offers a QR code for other devices, unless the page's address is local to this machine. */
function prepareCode() {
  if (isHost) {
    // The audience depends on Alice's share.
    for (const id of ["run-tour", "share", "permission", "stop", "reset"]) $(id).hidden = true;
    $("phone").textContent = "Audience";
    $("phone").hidden = false;
    $("phone").addEventListener("click", () => { $("code").hidden = !$("code").hidden; });
    return;
  }
  if (["localhost", "127.0.0.1", "[::1]"].includes(location.hostname)) return;
  const one = new URL(location.href);
  one.searchParams.set("user", "alice");
  one.searchParams.set("device", "pocket");
  $("phone").hidden = false;
  $("phone").addEventListener("click", () => {
    const isOpen = $("code").hidden;
    $("code").hidden = !isOpen;
    $("phone").setAttribute("aria-expanded", String(isOpen));
    const text = element("p", {}, "A fourth client, alice/pocket, on another device: ", element("a", { href: one.href }, one.href));
    if (isOpen) $("code").replaceChildren(qrImage(one.href), text);
  });
}

begin().catch(complain);
